//! One shell for a whole page, so that later lines see the variables of earlier lines.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Extra options of `curl`: no progress, and the status on stderr.
const CURL: &str = "silent\nshow-error\nmax-time = 60\nwrite-out = \"%{stderr}%{http_code}\"\n";

pub(crate) struct Shell {
    child: Child,
    commands: ChildStdin,
    codes: BufReader<ChildStdout>,
    folder: PathBuf,
}

pub(crate) struct Outcome {
    pub(crate) code: i32,
    pub(crate) printed: String,
    pub(crate) errors: String,
}

impl Shell {
    pub(crate) fn start(folder: &Path, variables: &[(&str, &str)]) -> Self {
        std::fs::write(folder.join(".curlrc"), CURL).unwrap();
        let mut command = Command::new("bash");
        command.args(["--noprofile", "--norc"]).current_dir(folder).env("CURL_HOME", folder);
        command.envs(variables.iter().copied()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let commands = child.stdin.take().unwrap();
        let codes = BufReader::new(child.stdout.take().unwrap());
        Self { child, commands, codes, folder: folder.to_owned() }
    }

    pub(crate) fn run(&mut self, script: &str) -> Outcome {
        std::fs::write(self.folder.join("script"), script).unwrap();
        writeln!(self.commands, ". ./script </dev/null >printed 2>errors; echo $?").unwrap();
        let mut code = String::new();
        self.codes.read_line(&mut code).unwrap();
        let read = |name: &str| {
            String::from_utf8_lossy(&std::fs::read(self.folder.join(name)).unwrap()).into_owned()
        };
        let code = code.trim().parse().unwrap_or_else(|_| panic!("the shell has ended: {script}"));
        Outcome { code, printed: read("printed"), errors: read("errors") }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
