//! `flovyn completions`

use std::io::Write;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::exit::{Exit, Failure};

#[derive(Args)]
#[command(after_help = "\
Examples:
  flovyn completions bash > ~/.local/share/bash-completion/completions/flovyn
  flovyn completions zsh > \"${fpath[1]}/_flovyn\"
  flovyn completions fish > ~/.config/fish/completions/flovyn.fish")]
pub(crate) struct Completions {
    /// The shell to generate completions for.
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut crate::Arguments::command(), "flovyn", &mut script);
        // A closed pipe means that the reader does not want the rest.
        std::io::stdout().write_all(&script).map_err(|_| Failure::new(Exit::Unread, ""))
    }
}
