//! The browser for the tests of the web pages: found, or installed if that is allowed. Without it these tests are
//! skipped, with a warning.

use std::env;
use std::process::Command;

use crate::Outcome;
use crate::postgres::{is_root, on_path};
use crate::run;

/// `none` tells the tests that there is no browser.
pub(crate) const VARIABLE: &str = "FLOVYN_TEST_BROWSER";

const NEEDED: [&str; 2] = ["chromium", "chromedriver"];

/// Whether the tests of the web pages can run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Browser {
    Found,
    LeftOut,
}

impl Browser {
    pub(crate) fn find_or_install() -> Outcome<Browser> {
        if env::var(VARIABLE).is_ok_and(|value| value == "none") {
            return Ok(left_out("FLOVYN_TEST_BROWSER=none"));
        }
        if !is_there() && is_root()? && on_path("apt-get") {
            run::say("Chromium is not installed: installing Debian's packages");
            if let Err(error) = install() {
                return Ok(left_out(&error));
            }
        }
        Ok(if is_there() { Browser::Found } else { left_out("chromium and chromedriver are not in PATH") })
    }

    pub(crate) fn tell(self, command: &mut Command) {
        if self == Browser::LeftOut {
            command.env(VARIABLE, "none");
        }
    }
}

fn left_out(reason: &str) -> Browser {
    run::say(&format!(
        "THE BROWSER TESTS ARE SKIPPED: {reason}. To run them, install Chromium and its driver (Debian: `apt-get install \
         chromium chromium-driver`)"
    ));
    Browser::LeftOut
}

fn is_there() -> bool {
    NEEDED.iter().all(|program| on_path(program))
}

fn install() -> Outcome<()> {
    let apt_get = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
        run::require_success(&mut command)
    };
    apt_get(&["update"])?;
    apt_get(&["install", "-y", "--no-install-recommends", "chromium", "chromium-driver", "fonts-dejavu-core"])
}
