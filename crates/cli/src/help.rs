//! The help of `flovyn` itself, with its commands in groups. The parser has no groups: it would print a single list.

use std::fmt::Write;

use clap::Command;

/// The heading of each group, and its commands.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Get started", &["demo", "dev"]),
    ("Inspect and control work on a server", &["workflow", "task", "promise", "queue", "worker"]),
    ("Run a server", &["server", "tenant", "token", "api-key", "clock"]),
    ("Maintain a database", &["migrate", "doctor", "backup", "restore"]),
    ("Other", &["completions", "help"]),
];

pub(crate) fn grouped(command: Command) -> Command {
    let styles = command.get_styles();
    let (header, literal) = (*styles.get_header(), *styles.get_literal());
    let mut list = String::new();
    for (title, names) in GROUPS {
        let _ = write!(list, "\n{header}{title}:{header:#}\n");
        for name in names {
            let about = match command.find_subcommand(name) {
                Some(found) => found.get_about().map(ToString::to_string).unwrap_or_default(),
                // The parser adds `help` later, so it is not among the commands yet.
                None => "Print this help, or the help of a command".to_owned(),
            };
            let _ = writeln!(list, "  {literal}{name:11}{literal:#}  {about}");
        }
    }
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n{list}\n{header}Options:{header:#}\n{{options}}{{after-help}}"
    );
    command.help_template(template)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn every_command_is_in_one_group() {
        let command = crate::Arguments::command();
        let mut known: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
        known.push("help");
        known.sort_unstable();
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        grouped.sort_unstable();
        assert_eq!(grouped, known);
    }
}
