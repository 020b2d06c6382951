//! Signals as commands: the first interrupt stops the turn, the second the program.

use ostler_proto::Command;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::mpsc,
};

/// The signals we listen to.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    /// Begins to listen.
    pub(crate) fn listen() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for any of them and gives the exit code that goes with it.
    pub(crate) async fn first(&mut self) -> u8 {
        tokio::select! {
            _ = self.interrupt.recv() => 130,
            _ = self.terminate.recv() => 143,
            _ = self.hangup.recv() => 129,
        }
    }

    /// Passes interrupts on and returns the exit code once the program must end.
    pub(crate) async fn rule(mut self, commands: mpsc::Sender<Command>) -> u8 {
        let mut interrupted = false;
        loop {
            tokio::select! {
                _ = self.interrupt.recv() => {
                    if interrupted {
                        return 130;
                    }
                    interrupted = true;
                    // A full inbox means a busy agent; a closed one is about to end anyway.
                    let _ = commands.try_send(Command::Interrupt);
                }
                _ = self.terminate.recv() => return 143,
                _ = self.hangup.recv() => return 129,
            }
        }
    }
}
