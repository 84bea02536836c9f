//! `config.toml`: profiles, each with an address, a tenant and a token.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::place::Place;
use crate::exit::Failure;
use crate::local::read_if_there;
use crate::view::note;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Content {
    /// The profile that is used if none is named.
    default: Option<String>,
    profiles: BTreeMap<String, Profile>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Profile {
    url: String,
    tenant: Option<String>,
    token: Option<String>,
    /// A file that contains only the token.
    token_file: Option<PathBuf>,
}

/// The content of the file. Empty if the file does not exist.
#[derive(Debug)]
pub(super) struct Profiles {
    file: PathBuf,
    content: Content,
}

/// The path of the file, which may not exist.
pub(super) fn file() -> Result<PathBuf, Failure> {
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let config = folder("XDG_CONFIG_HOME").or_else(|| folder("HOME").map(|home| home.join(".config")));
    let config = config.ok_or_else(|| {
        Failure::usage("cannot locate the profiles: neither XDG_CONFIG_HOME nor HOME is set")
            .advise("Set HOME, or name the server with --url and FLOVYN_TOKEN.")
    })?;
    Ok(config.join("flovyn").join("config.toml"))
}

impl Profiles {
    pub(super) fn load(file: &Path) -> Result<Self, Failure> {
        let Some(text) = read_if_there(file).map_err(Failure::usage)? else {
            return Ok(Self { file: file.to_owned(), content: Content::default() });
        };
        let content: Content = toml::from_str(&text).map_err(|error| {
            Failure::usage(format!("{} cannot be read: {}", file.display(), error.to_string().trim_end()))
        })?;
        let has_token = content.profiles.values().any(|profile| profile.token.is_some());
        if has_token && others_can_read(file) {
            note(&format!(
                "flovyn: other users can read the tokens in {0}; run: chmod 600 {0}",
                file.display()
            ));
        }
        Ok(Self { file: file.to_owned(), content })
    }

    pub(super) fn named(&self, name: &str) -> Result<Place, Failure> {
        let Some(profile) = self.content.profiles.get(name) else {
            let known: Vec<&str> = self.content.profiles.keys().map(String::as_str).collect();
            let file = self.file.display();
            let todo = match known.is_empty() {
                true => format!("Add [profiles.{name}] with url, tenant and token to it."),
                false => format!("It has {}.", known.join(", ")),
            };
            return Err(Failure::usage(format!("there is no profile '{name}' in {file}")).advise(todo));
        };
        Ok(Place {
            name: format!("profile '{name}' in {}", self.file.display()),
            url: Some(profile.url.clone()),
            tenant: profile.tenant.clone(),
            token: self.token(name, profile)?,
        })
    }

    pub(super) fn default_place(&self) -> Result<Option<Place>, Failure> {
        self.content.default.as_deref().map(|name| self.named(name)).transpose()
    }

    fn token(&self, name: &str, profile: &Profile) -> Result<Option<String>, Failure> {
        let Some(path) = &profile.token_file else { return Ok(profile.token.clone()) };
        // A relative path is relative to the profile file.
        let path = self.file.parent().unwrap_or(Path::new("")).join(path);
        let text = std::fs::read_to_string(&path).map_err(|error| {
            Failure::usage(format!("profile '{name}': cannot read token_file {}: {error}", path.display()))
        })?;
        Ok(Some(text.trim().to_owned()))
    }
}

fn others_can_read(file: &Path) -> bool {
    std::fs::metadata(file).is_ok_and(|metadata| metadata.permissions().mode() & 0o077 != 0)
}
