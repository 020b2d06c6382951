//! Calls on the stage, as tools make them.

use super::stage::{Stage, caller, shell};
use ostler_control::checkpoint::{Checkpoints, Recorded};

impl Stage {
    pub(crate) fn new() -> Self {
        Self::within(&std::env::temp_dir())
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.at(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.at(name)).unwrap()
    }

    /// Runs a shell command as a call.
    pub(crate) fn run(&self, checkpoints: &Checkpoints, command: &str) -> Recorded {
        let running = checkpoints.before_command(&caller("s1", command), &[self.project()]).unwrap();
        shell(&self.project(), command);
        checkpoints.finish(running).unwrap().unwrap()
    }

    /// Writes a file as an edit does.
    pub(crate) fn edit(&self, checkpoints: &Checkpoints, name: &str, content: impl AsRef<[u8]>) -> Recorded {
        let running = checkpoints.before_files(&caller("s1", name), &[self.at(name)]).unwrap();
        self.write(name, content);
        checkpoints.finish(running).unwrap().unwrap()
    }
}
