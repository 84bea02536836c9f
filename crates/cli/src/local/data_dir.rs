//! The data directory of a development server. Only the owner can read its secrets.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use flovyn_auth::random_hex;

pub(super) const CREDENTIALS: &str = "credentials.json";

pub(crate) struct DataDir {
    path: PathBuf,
}

impl DataDir {
    /// Opens the directory, and creates it if it does not exist.
    pub(crate) fn open(path: &Path) -> Result<Self, String> {
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|error| {
            format!(
                "cannot create the data directory {}: {error}; choose another with --data-dir",
                path.display()
            )
        })?;
        Ok(Self { path: path.to_owned() })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn database_url(&self) -> String {
        format!("sqlite:{}", self.path.join("flovyn.db").display())
    }

    pub(crate) fn credentials_file(&self) -> PathBuf {
        self.path.join(CREDENTIALS)
    }

    /// The file with the secret that signs API tokens. It is created at the first start.
    pub(crate) fn jwt_secret(&self) -> Result<PathBuf, String> {
        let path = self.path.join("jwt.secret");
        if !path.exists() {
            write_secret(&path, format!("{}\n", random_hex()?).as_bytes())?;
        }
        Ok(path)
    }
}

/// Reads a file. `None`: the file does not exist.
pub(crate) fn read_if_there(path: &Path) -> Result<Option<String>, String> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => {
            let todo = match error.kind() {
                ErrorKind::PermissionDenied => "; check its permissions",
                _ => "",
            };
            Err(format!("cannot read {}: {error}{todo}", path.display()))
        }
    }
}

/// Writes a file atomically, readable only by its owner.
pub(crate) fn write_secret(path: &Path, content: &[u8]) -> Result<(), String> {
    let draft = path.with_extension(format!("draft-{}", std::process::id()));
    let write = || -> std::io::Result<()> {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&draft, path)
    };
    write().map_err(|error| {
        // Best effort: the original error is the one to report.
        let _ = fs::remove_file(&draft);
        format!("cannot write {}: {error}; check the data directory's permissions and space", path.display())
    })
}
