//! The settings from the environment, read once.

use std::env;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Settings {
    /// The path of the database file. Watched files have this path plus a known suffix. `None` watches
    /// nothing.
    pub(crate) database: Option<Vec<u8>>,
    pub(crate) record: Option<PathBuf>,
    pub(crate) lie: Option<String>,
    pub(crate) slow_sync: Duration,
    pub(crate) fault: Option<PathBuf>,
    pub(crate) skew_ms: i64,
}

static SETTINGS: OnceLock<Settings> = OnceLock::new();

pub(crate) fn get() -> &'static Settings {
    SETTINGS.get_or_init(|| {
        let number = |name: &str| env::var(name).ok().and_then(|text| text.parse::<i64>().ok());
        Settings {
            database: env::var_os("FLOVYN_TEST_SHIM_DATABASE").map(OsString::into_vec),
            record: env::var_os("FLOVYN_TEST_SHIM_RECORD").map(PathBuf::from),
            lie: env::var("FLOVYN_TEST_SHIM_LIE").ok(),
            slow_sync: Duration::from_millis(
                number("FLOVYN_TEST_SHIM_SLOW_SYNC_MS").unwrap_or_default().unsigned_abs(),
            ),
            fault: env::var_os("FLOVYN_TEST_SHIM_FAULT").map(PathBuf::from),
            skew_ms: number("FLOVYN_TEST_SHIM_SKEW_MS").unwrap_or_default(),
        }
    })
}
