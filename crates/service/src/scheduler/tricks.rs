//! Optimisations that can be switched off, to measure what they gain.

/// Optimisations, each of which can be switched off to measure its gain. None of them changes a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tricks {
    /// On SQLite, a batch is decided while the one before it is being written.
    pub overlapping_writes: bool,
    /// On SQLite, large claims of one session go into different batches.
    pub claim_turns: bool,
    /// On SQLite, a single start is handed to a worker first and then written together with its first step.
    pub first_steps: bool,
    /// Batches of several tenants are kept so small that no batch takes long.
    pub adaptive_pace: bool,
    /// The loop stays awake for a first step that is expected soon.
    pub stay_awake: bool,
    /// A poll of lanes that are known to be empty waits without searching them.
    pub known_empty_lanes: bool,
    /// An idle process frees memory that only makes the next request faster.
    pub release_at_rest: bool,
}

impl Default for Tricks {
    fn default() -> Self {
        Self {
            overlapping_writes: true,
            claim_turns: true,
            first_steps: true,
            adaptive_pace: true,
            stay_awake: true,
            known_empty_lanes: true,
            release_at_rest: true,
        }
    }
}

impl Tricks {
    /// All optimisations except those in a list of names, separated by commas. The names are those of the fields.
    ///
    /// # Errors
    /// Fails with the first unknown name.
    pub fn without(names: &str) -> Result<Self, String> {
        let mut tricks = Self::default();
        for name in names.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            let trick = match name {
                "overlapping_writes" => &mut tricks.overlapping_writes,
                "claim_turns" => &mut tricks.claim_turns,
                "first_steps" => &mut tricks.first_steps,
                "adaptive_pace" => &mut tricks.adaptive_pace,
                "stay_awake" => &mut tricks.stay_awake,
                "known_empty_lanes" => &mut tricks.known_empty_lanes,
                "release_at_rest" => &mut tricks.release_at_rest,
                unknown => return Err(unknown.to_owned()),
            };
            *trick = false;
        }
        Ok(tricks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tricks_are_switched_off_by_name() {
        assert_eq!(Tricks::without(""), Ok(Tricks::default()));
        let off = Tricks { stay_awake: false, claim_turns: false, ..Tricks::default() };
        assert_eq!(Tricks::without("stay_awake, claim_turns"), Ok(off));
        assert_eq!(Tricks::without("stay_awake,magic"), Err("magic".to_owned()));
    }
}
