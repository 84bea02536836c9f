//! A place: a saved address with a token, from a profile or from the data directory of `flovyn dev`.

use std::path::Path;

use super::profiles::{self, Profiles};
use crate::exit::Failure;
use crate::local::Credentials;

/// The default data directory of `flovyn dev`.
const DATA_DIR: &str = ".flovyn";

/// The content of a place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Place {
    /// The name in messages.
    pub(crate) name: String,
    pub(crate) url: Option<String>,
    pub(crate) tenant: Option<String>,
    pub(crate) token: Option<String>,
}

/// Finds the place to use: the named one, else the default profile, else the server of this folder. If address and
/// token are given already (`complete`), only a named place is read, so that a broken file does not matter.
pub(super) fn find(
    profile: Option<&str>,
    data_dir: Option<&Path>,
    complete: bool,
) -> Result<Option<Place>, Failure> {
    if let Some(folder) = data_dir {
        let missing = || {
            let folder = folder.display();
            Failure::usage(format!(
                "{folder} is not a data directory of `flovyn dev`: it has no credentials.json"
            ))
            .advise(format!("Start one with `flovyn dev --data-dir {folder}`, or pass its data directory."))
        };
        return Ok(Some(credentials(folder)?.ok_or_else(missing)?));
    }
    if let Some(name) = profile {
        return Ok(Some(Profiles::load(&profiles::file()?)?.named(name)?));
    }
    if complete {
        return Ok(None);
    }
    let profiles = profiles::file().ok().map(|file| Profiles::load(&file)).transpose()?;
    if let Some(place) = profiles.map(|profiles| profiles.default_place()).transpose()?.flatten() {
        return Ok(Some(place));
    }
    credentials(Path::new(DATA_DIR))
}

fn credentials(folder: &Path) -> Result<Option<Place>, Failure> {
    let wrong = |why: String| {
        Failure::usage(why)
            .advise("`flovyn dev` writes this file: delete the file and restart `flovyn dev`, or name a server with --url.")
    };
    let Some((file, found)) = Credentials::load(folder).map_err(wrong)? else { return Ok(None) };
    Ok(Some(Place {
        name: file.display().to_string(),
        url: Some(found.http_url),
        tenant: Some(found.tenant),
        token: Some(found.api_token),
    }))
}
