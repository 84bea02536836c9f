//! The first page of help: commands in groups. The parser knows but one list of them.

use std::fmt::Write;

use clap::Command;

/// What a group is for, and its commands.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Begin", &["demo", "dev"]),
    ("See and steer work, on a server", &["workflow", "task", "promise", "queue", "worker"]),
    ("Run a server", &["server", "tenant", "token", "api-key", "clock"]),
    ("Maintain its database", &["migrate", "doctor", "backup", "restore"]),
    ("More", &["completions", "help"]),
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
                // The parser makes it, and only later.
                None => "Print this, or the help of a command".to_owned(),
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
