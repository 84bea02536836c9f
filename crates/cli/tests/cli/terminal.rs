//! Output to a terminal: colours, unless they are disabled, and lines that fit.

use std::fs::File;
use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::conditions::interrupt;
use crate::world::{World, gate};

/// A command that runs in its own pseudo-terminal.
pub(crate) struct Shown {
    terminal: File,
    child: Child,
    pub(crate) text: String,
}

impl Shown {
    pub(crate) fn start(mut command: Command, columns: u16, variables: &[(&str, &str)]) -> Self {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&terminal).unwrap();
        unlockpt(&terminal).unwrap();
        let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&terminal, size).unwrap();
        let name = ptsname(&terminal, Vec::new()).unwrap().into_string().unwrap();
        let open = || Stdio::from(File::options().read(true).write(true).open(&name).unwrap());
        command.env("TERM", "xterm").env_remove("NO_COLOR").envs(variables.iter().copied());
        // The command is dropped at the end of this function. Then only the child has the other end, so reading ends
        // with the child.
        let child = command.stdout(open()).stderr(open()).spawn().unwrap();
        Self { terminal: File::from(terminal), child, text: String::new() }
    }

    /// Reads the next output. The end of the terminal is an error.
    fn read(&mut self) -> bool {
        let mut bytes = [0; 4096];
        let count = self.terminal.read(&mut bytes).unwrap_or(0);
        self.text.push_str(&String::from_utf8_lossy(&bytes[..count]));
        count > 0
    }

    pub(crate) fn until(&mut self, part: &str) {
        while !self.text.contains(part) {
            assert!(self.read(), "it ended without {part:?}: {:?}", self.text);
        }
    }

    /// Ends the command with Ctrl-C.
    pub(crate) fn interrupt(mut self) -> ExitStatus {
        interrupt(self.child.id());
        self.child.wait().unwrap()
    }

    pub(crate) fn end(mut self) -> String {
        while self.read() {}
        assert!(self.child.wait().unwrap().success(), "{:?}", self.text);
        std::mem::take(&mut self.text)
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn on_terminal(world: &World, arguments: &[&str], columns: u16, variables: &[(&str, &str)]) -> String {
    Shown::start(world.command(arguments), columns, variables).end()
}

pub(crate) fn plain(text: &str) -> String {
    console::strip_ansi_codes(text).into_owned()
}

#[test]
fn colours_are_for_terminals_and_for_those_who_want_them() {
    let world = World::new();
    let start = ["workflow", "start", "greeting", "-i", r#"{"name": "Ada"}"#, "--queue", "default"];
    let id = world.run(&start).id();
    world.until_status("workflow", &id, "COMPLETED");
    let list = ["workflow", "list"];
    assert!(on_terminal(&world, &list, 100, &[]).contains("\x1b[32mCOMPLETED\x1b[0m"));
    for variable in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        let text = on_terminal(&world, &list, 100, &[variable]);
        assert!(text.contains("COMPLETED") && !text.contains('\x1b'), "{variable:?}: {text:?}");
    }
    let show = on_terminal(&world, &["workflow", "show", &id], 100, &[("NO_COLOR", "1")]);
    assert!(!show.contains('\x1b'), "{show:?}");
}

#[test]
fn lines_fit_the_terminal() {
    let world = World::new();
    let kind = "a-workflow-with-a-name-that-is-much-longer-than-any-terminal-is-wide-and-then-some-more";
    let id = world.run(&["workflow", "start", kind, "--queue", kind]).id();
    for columns in [80, 120] {
        let list = plain(&on_terminal(&world, &["workflow", "list"], columns, &[]));
        let fits = list.lines().all(|line| line.trim_end().chars().count() <= usize::from(columns));
        assert!(fits && list.contains(&id) && list.contains('…'), "{list}");
    }
    let whole = world.run(&["workflow", "list"]).out;
    assert!(whole.contains(kind) && !whole.contains('…'), "{whole}");
}

#[test]
fn who_waits_in_front_of_a_terminal_sees_a_bar() {
    let world = World::new();
    let id = world.run(&["workflow", "start", "gallery", "-i", r#""a bridge""#]).id();
    let mut shown = Shown::start(world.command(&["workflow", "wait", &id]), 100, &[]);
    shown.until("gallery [");
    gate("a bridge").add_permits(1);
    shown.until("paint 50 % half of it");
    gate("a bridge").add_permits(1);
    let text = shown.end();
    assert!(text.contains("=====>"), "half of it is done: {text:?}");
    assert!(text.trim_end().ends_with("\"a picture of a bridge\""), "{text:?}");
}
