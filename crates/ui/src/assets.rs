//! Styles and scripts, inside the binary. Their URL contains a hash of all files, so browsers may cache them forever,
//! and scripts import each other by plain names.

use std::sync::LazyLock;

use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};

use crate::extract::Path;
use crate::failure::Failure;

/// The name, type and content of each file.
const FILES: &[(&str, &str, &str)] = &[
    ("style.css", "text/css; charset=utf-8", include_str!("../assets/style.css")),
    ("pages.css", "text/css; charset=utf-8", include_str!("../assets/pages.css")),
    ("app.js", SCRIPT, include_str!("../assets/app.js")),
    ("copy.js", SCRIPT, include_str!("../assets/copy.js")),
    ("forms.js", SCRIPT, include_str!("../assets/forms.js")),
    ("keys.js", SCRIPT, include_str!("../assets/keys.js")),
    ("live.js", SCRIPT, include_str!("../assets/live.js")),
    ("log.js", SCRIPT, include_str!("../assets/log.js")),
    ("theme.js", SCRIPT, include_str!("../assets/theme.js")),
    ("times.js", SCRIPT, include_str!("../assets/times.js")),
    ("icon.svg", "image/svg+xml", include_str!("../assets/icon.svg")),
];
const SCRIPT: &str = "text/javascript; charset=utf-8";
const FOR_EVER: &str = "public, max-age=31536000, immutable";

static HASH: LazyLock<String> = LazyLock::new(|| {
    let mut hash = Sha256::new();
    FILES.iter().for_each(|(_, _, content)| hash.update(content.as_bytes()));
    hash.finalize()[..8].iter().map(|byte| format!("{byte:02x}")).collect()
});

/// The URL of a file.
pub(crate) fn path(name: &str) -> String {
    format!("/assets/{}/{name}", *HASH)
}

pub(crate) async fn get(Path((hash, name)): Path<(String, String)>) -> Result<Response, Failure> {
    let found = FILES.iter().find(|(known, ..)| *known == name).filter(|_| hash == *HASH);
    let (_, kind, content) = found.ok_or_else(|| Failure::not_found("this file does not exist"))?;
    Ok(([(CONTENT_TYPE, *kind), (CACHE_CONTROL, FOR_EVER)], *content).into_response())
}
