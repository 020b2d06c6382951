//! What the harness tells its warden, and one stage of the warden the next: plain data written as
//! command-line words, so that paths of any bytes pass and nothing goes through the environment.

use crate::host::sandbox::Backend;
use std::{
    ffi::{OsStr, OsString},
    os::{
        fd::RawFd,
        unix::ffi::{OsStrExt, OsStringExt},
    },
    path::PathBuf,
};

/// One stage's task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) stage: Stage,
    /// The socket to the harness: signals come in, the outcome goes out, its end means all must end.
    pub(crate) control: RawFd,
    /// Where a listener for the proxy is sent, when some hosts may be reached.
    pub(crate) gate: Option<RawFd>,
    /// A locked file that the first stage keeps open to its end.
    pub(crate) held: Option<RawFd>,
    /// The command's standard streams, when they are not this process's own.
    pub(crate) stdio: Option<[RawFd; 3]>,
    /// How the command is confined; nothing when it is free.
    pub(crate) backend: Option<Backend>,
    pub(crate) network: Reach,
    /// The bounds, or what a stage before has made of them.
    pub(crate) steps: Vec<Step>,
    /// The command.
    pub(crate) program: OsString,
    pub(crate) args: Vec<OsString>,
}

/// How far a process is on the way from the harness to the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Started by the harness; outlives the command and clears up behind it.
    Outer,
    /// Makes the namespaces.
    Middle,
    /// Inside: confines itself and starts the command.
    Inner,
}

/// What of the network is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Its own loopback at most.
    Cut,
    /// As the machine has it.
    Open,
}

/// One path and what is to become of it, in the order of doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) kind: StepKind,
    pub(crate) path: PathBuf,
}

/// What becomes of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StepKind {
    /// It is seen though something around it is not.
    Shown,
    /// It and what is below may be written.
    Writable,
    /// It stays what it is, but can be neither moved, removed nor replaced.
    Pinned,
    /// It cannot be changed.
    Frozen,
    /// A folder that looks empty and cannot be entered.
    HiddenFolder,
    /// Anything else that cannot be opened.
    HiddenFile,
}

const STEPS: [(&str, StepKind); 6] = [
    ("shown", StepKind::Shown),
    ("writable", StepKind::Writable),
    ("pinned", StepKind::Pinned),
    ("frozen", StepKind::Frozen),
    ("hidden-folder", StepKind::HiddenFolder),
    ("hidden-file", StepKind::HiddenFile),
];
const STAGES: [(&str, Stage); 3] =
    [("outer", Stage::Outer), ("middle", Stage::Middle), ("inner", Stage::Inner)];

impl Order {
    /// Whether a descriptor is one that it passes on.
    pub(crate) fn names(&self, number: RawFd) -> bool {
        let stdio = self.stdio.into_iter().flatten();
        stdio.chain(self.gate).chain(self.held).chain([self.control]).any(|named| named == number)
    }

    /// The words for the command line.
    pub(crate) fn to_words(&self) -> Vec<OsString> {
        let mut words = Vec::new();
        let mut add = |key: &str, value: &OsStr| {
            let mut word = OsString::from(key);
            word.push("=");
            word.push(value);
            words.push(word);
        };
        add("stage", name_of(&STAGES, self.stage).as_ref());
        add("control", self.control.to_string().as_ref());
        if let Some(gate) = self.gate {
            add("gate", gate.to_string().as_ref());
        }
        if let Some(held) = self.held {
            add("held", held.to_string().as_ref());
        }
        if let Some([stdin, stdout, stderr]) = self.stdio {
            add("stdio", format!("{stdin},{stdout},{stderr}").as_ref());
        }
        if let Some(backend) = self.backend {
            add("backend", backend.name().as_ref());
        }
        let network = match self.network {
            Reach::Cut => "cut",
            Reach::Open => "open",
        };
        add("network", network.as_ref());
        self.steps.iter().for_each(|step| add(name_of(&STEPS, step.kind), step.path.as_os_str()));
        words.push("--".into());
        words.push(self.program.clone());
        words.extend(self.args.iter().cloned());
        words
    }

    /// Reads the words back; an error names the word that is wrong.
    pub(crate) fn from_words(words: impl IntoIterator<Item = OsString>) -> Result<Self, String> {
        let mut words = words.into_iter();
        let mut order = Self {
            stage: Stage::Outer,
            control: -1,
            gate: None,
            held: None,
            stdio: None,
            backend: None,
            network: Reach::Cut,
            steps: Vec::new(),
            program: OsString::new(),
            args: Vec::new(),
        };
        for word in words.by_ref() {
            if word == "--" {
                break;
            }
            order.read(&word).ok_or_else(|| format!("not understood: {}", word.to_string_lossy()))?;
        }
        order.program = words.next().ok_or("no command was given")?;
        order.args = words.collect();
        if order.control < 3 {
            return Err("no control socket was given".to_owned());
        }
        Ok(order)
    }

    fn read(&mut self, word: &OsStr) -> Option<()> {
        let bytes = word.as_bytes();
        let split = bytes.iter().position(|byte| *byte == b'=')?;
        let key = std::str::from_utf8(&bytes[..split]).ok()?;
        let value = &bytes[split + 1..];
        let text = std::str::from_utf8(value);
        match key {
            "stage" => self.stage = value_of(&STAGES, text.ok()?)?,
            "control" => self.control = text.ok()?.parse().ok()?,
            "gate" => self.gate = Some(text.ok()?.parse().ok()?),
            "held" => self.held = Some(text.ok()?.parse().ok()?),
            "stdio" => {
                let numbers: Result<Vec<RawFd>, _> = text.ok()?.split(',').map(str::parse).collect();
                self.stdio = Some(numbers.ok()?.try_into().ok()?);
            }
            "backend" => {
                let name = text.ok()?;
                self.backend = Some(Backend::ALL.into_iter().find(|backend| backend.name() == name)?);
            }
            "network" => {
                self.network = match text.ok()? {
                    "cut" => Reach::Cut,
                    "open" => Reach::Open,
                    _ => return None,
                }
            }
            key => {
                let path = PathBuf::from(OsString::from_vec(value.to_vec()));
                self.steps.push(Step { kind: value_of(&STEPS, key)?, path });
            }
        }
        Some(())
    }
}

fn name_of<T: Copy + PartialEq>(names: &[(&'static str, T)], value: T) -> &'static str {
    names.iter().find(|(_, known)| *known == value).map_or("", |(name, _)| name)
}

fn value_of<T: Copy>(names: &[(&str, T)], name: &str) -> Option<T> {
    names.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words() -> impl Strategy<Value = OsString> {
        proptest::collection::vec(1u8.., 0..20).prop_map(OsString::from_vec)
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let kind = proptest::sample::select(STEPS.map(|(_, kind)| kind).to_vec());
        proptest::collection::vec(
            (kind, words()).prop_map(|(kind, path)| Step { kind, path: path.into() }),
            0..6,
        )
    }

    proptest! {
        #[test]
        fn an_order_survives_the_command_line(
            stage in proptest::sample::select(STAGES.map(|(_, stage)| stage).to_vec()),
            backend in proptest::option::of(proptest::sample::select(Backend::ALL.to_vec())),
            gate in proptest::option::of(3..99i32),
            held in proptest::option::of(3..99i32),
            stdio in proptest::option::of([3..99i32, 3..99, 3..99]),
            is_open: bool,
            steps in steps(),
            program in words(),
            args in proptest::collection::vec(words(), 0..4),
        ) {
            let network = if is_open { Reach::Open } else { Reach::Cut };
            let order = Order { stage, control: 7, gate, held, stdio, backend, network, steps, program, args };
            prop_assert_eq!(Order::from_words(order.to_words()), Ok(order));
        }

        #[test]
        fn nonsense_is_refused_and_never_panics(words in proptest::collection::vec(words(), 0..6)) {
            prop_assert!(Order::from_words(words).is_err());
        }
    }
}
