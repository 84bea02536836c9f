//! Places where an address and a token are kept together: a profile, or what `flovyn dev` has left in its data directory.

use std::path::Path;

use super::profiles::{self, Profiles};
use crate::exit::Failure;
use crate::local::Credentials;

/// The data directory of `flovyn dev` where none is named.
const DATA_DIR: &str = ".flovyn";

/// What one place says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Place {
    /// For people.
    pub(crate) name: String,
    pub(crate) url: Option<String>,
    pub(crate) tenant: Option<String>,
    pub(crate) token: Option<String>,
}

/// The place that counts: one that is named, else the default profile, else the folder's own server. Unless it is named, a
/// place is not needed by whoever has said everything already (`complete`), and then must not get in the way.
pub(super) fn find(
    profile: Option<&str>,
    data_dir: Option<&Path>,
    complete: bool,
) -> Result<Option<Place>, Failure> {
    if let Some(folder) = data_dir {
        let missing = || {
            let folder = folder.display();
            Failure::usage(format!("no `flovyn dev` has run in {folder}: there is no credentials.json"))
                .advise(format!("Start one with `flovyn dev --data-dir {folder}`, or name its folder."))
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
            .advise("`flovyn dev` has written it: delete it and start that again for a new one, or name a server with --url.")
    };
    let Some((file, found)) = Credentials::load(folder).map_err(wrong)? else { return Ok(None) };
    Ok(Some(Place {
        name: file.display().to_string(),
        url: Some(found.http_url),
        tenant: Some(found.tenant),
        token: Some(found.api_token),
    }))
}
