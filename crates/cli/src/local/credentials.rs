//! `credentials.json`: the addresses and tokens for clients on this machine. Kept across restarts.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use flovyn_auth::{JwtVerifier, new_token};
use serde::{Deserialize, Serialize};

use super::data_dir::{CREDENTIALS as FILE, DataDir, read_if_there, write_secret};

const TEN_YEARS_SECONDS: i64 = 10 * 365 * 24 * 60 * 60;

#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Credentials {
    pub(crate) tenant: String,
    pub(crate) tenant_id: String,
    pub(crate) http_url: String,
    pub(crate) grpc_url: String,
    pub(crate) worker_token: String,
    pub(crate) api_token: String,
}

impl Credentials {
    /// The credentials that a server has written to this directory, and their file. `None`: there is no file.
    pub(crate) fn load(data_dir: &Path) -> Result<Option<(PathBuf, Self)>, String> {
        let path = data_dir.join(FILE);
        let Some(text) = read_if_there(&path)? else { return Ok(None) };
        let found = serde_json::from_str(&text);
        let found = found.map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
        Ok(Some((path, found)))
    }

    /// The credentials of the last start, or new ones. Addresses and ids are added once the server runs.
    pub(crate) fn load_or_make(data_dir: &DataDir, jwt: &JwtVerifier, tenant: &str) -> Result<Self, String> {
        let path = data_dir.credentials_file();
        let mut credentials = match read_if_there(&path)? {
            Some(text) => serde_json::from_str(&text).map_err(|error| {
                format!(
                    "{} cannot be read: {error}; correct it, or delete it to get new tokens",
                    path.display()
                )
            })?,
            None => Self {
                tenant: tenant.to_owned(),
                tenant_id: String::new(),
                http_url: String::new(),
                grpc_url: String::new(),
                worker_token: new_token()?,
                api_token: String::new(),
            },
        };
        // The token is invalid if the secret was deleted.
        if jwt.authenticate(&credentials.api_token).is_err() {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let now = i64::try_from(now.as_secs()).unwrap_or_default();
            credentials.api_token = jwt.sign("dev", &[tenant], "admin", now, now + TEN_YEARS_SECONDS)?;
        }
        Ok(credentials)
    }

    pub(crate) fn save(&self, data_dir: &DataDir) -> Result<(), String> {
        let mut text = serde_json::to_string_pretty(self).map_err(|error| error.to_string())?;
        text.push('\n');
        write_secret(&data_dir.credentials_file(), text.as_bytes())
    }
}
