//! Which worker may take an execution that is held back after a failed activation, before its delay is over.
//!
//! A build that has failed on the execution would only fail again. A build that has not tried may have the fix, so it
//! takes the execution without waiting. All failed builds are remembered: otherwise two broken builds could take turns
//! without a delay.

use crate::ids::Text;
use crate::planted::{Bug, planted};

/// The most builds that are remembered. If more have failed, the delay holds for every build.
const MAX_BUILDS: usize = 8;
/// The separator in the column. Build ids are compared as a whole, so an id that contains it is never recognised.
const BETWEEN: char = '\n';

/// The failed builds after this build has failed too. `None`: the build has no name, so the delay holds for every
/// build.
pub(crate) fn failed_on(builds: Option<&Text>, build: Option<&Text>) -> Option<Text> {
    let build = build?;
    match builds {
        Some(builds) if has_failed(builds, build) => Some(builds.clone()),
        Some(builds) if builds.split(BETWEEN).count() > MAX_BUILDS => Some(builds.clone()),
        Some(builds) => Some(format!("{builds}{BETWEEN}{build}").into()),
        None => Some(build.clone()),
    }
}

/// Whether a worker of this build may take the execution before its delay is over.
pub fn may_try(builds: Option<&Text>, build: Option<&Text>) -> bool {
    let (Some(builds), Some(build)) = (builds, build) else { return false };
    let forgotten = builds.split(BETWEEN).count() > MAX_BUILDS;
    !forgotten && (planted(Bug::RetakenBySameBuild) || !has_failed(builds, build))
}

/// The builds that have failed, in the order of their first failure.
pub(crate) fn builds(builds: &Text) -> Vec<Text> {
    builds.split(BETWEEN).map(Text::from).collect()
}

/// Whether this build has failed on the execution.
pub fn has_failed(builds: &Text, build: &Text) -> bool {
    builds.split(BETWEEN).any(|failed| failed == &**build)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_build_that_has_not_failed_may_try() {
        let text = |text: &str| Some(Text::from(text));
        let many: Vec<String> = (0..MAX_BUILDS + 1).map(|number| format!("b{number}")).collect();
        let table = [
            (None, text("b1"), false),
            (text("b1"), None, false),
            (text("b1"), text("b1"), false),
            (text("b1"), text("b2"), true),
            (text("b1\nb2"), text("b1"), false),
            (text("b1\nb2"), text("b2"), false),
            (text("b1\nb2"), text("b3"), true),
            (text("b10"), text("b1"), true),
            (text(&many[..MAX_BUILDS].join("\n")), text("new"), true),
            (text(&many.join("\n")), text("new"), false),
        ];
        for (builds, build, expected) in table {
            assert_eq!(may_try(builds.as_ref(), build.as_ref()), expected, "{builds:?} {build:?}");
        }
    }

    #[test]
    fn each_build_is_remembered_once_and_an_unknown_one_forgets_them() {
        let text = |text: &str| Some(Text::from(text));
        let table = [
            (None, text("b1"), text("b1")),
            (text("b1"), text("b1"), text("b1")),
            (text("b1"), text("b2"), text("b1\nb2")),
            (text("b1\nb2"), text("b1"), text("b1\nb2")),
            (text("b1"), None, None),
        ];
        for (builds, build, expected) in table {
            assert_eq!(failed_on(builds.as_ref(), build.as_ref()), expected, "{builds:?} {build:?}");
        }
    }
}
