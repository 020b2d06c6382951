//! Modes as a state of the judge: which may be entered, and what plan mode goes back to.

use super::Policy;
use ostler_proto::Mode;

/// Whether permissions may be bypassed in this session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Bypass {
    /// The user did not ask for it at the start, or settings forbid it.
    #[default]
    Refused,
    /// They did, and nothing forbids it.
    Possible,
}

/// Whom an agent in mode [`Mode::Bubble`] can ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Above {
    /// Nobody: what would ask is denied.
    #[default]
    Nobody,
    /// The agent that started it.
    Parent,
}

impl Policy {
    /// Puts a mode in force, or says why not.
    pub fn set_mode(&mut self, mode: Mode) -> Result<(), String> {
        if mode == Mode::BypassPermissions && mode != self.mode && self.bypass == Bypass::Refused {
            return Err(
                "permissions cannot be bypassed: the session was not started so that they may, or settings forbid it"
                    .to_owned(),
            );
        }
        if mode == Mode::Plan && self.mode != Mode::Plan {
            self.before_plan = self.mode;
        }
        self.mode = mode;
        Ok(())
    }

    /// Ends plan mode: the mode before it is in force again, and is given. Nothing if there is no plan mode.
    pub fn leave_plan(&mut self) -> Option<Mode> {
        if self.mode != Mode::Plan {
            return None;
        }
        self.mode = match self.before_plan {
            Mode::Plan => Mode::Default,
            Mode::BypassPermissions if self.bypass == Bypass::Refused => Mode::Default,
            before @ (Mode::Default
            | Mode::AcceptEdits
            | Mode::DontAsk
            | Mode::BypassPermissions
            | Mode::Bubble) => before,
        };
        Some(self.mode)
    }

    /// Takes the leave to bypass back.
    pub(crate) fn refuse_bypass(&mut self) {
        self.bypass = Bypass::Refused;
        if self.mode == Mode::BypassPermissions {
            self.mode = Mode::Default;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plan_goes_back_to_what_was_before() {
        for before in [Mode::Default, Mode::AcceptEdits, Mode::DontAsk] {
            let mut policy = Policy { mode: before, ..Policy::default() };
            policy.set_mode(Mode::Plan).unwrap();
            policy.set_mode(Mode::Plan).unwrap();
            assert_eq!((policy.mode, policy.leave_plan(), policy.mode), (Mode::Plan, Some(before), before));
            assert_eq!(policy.leave_plan(), None);
        }
    }

    #[test]
    fn bypass_needs_leave_also_by_way_of_plan() {
        let mut policy = Policy::default();
        assert!(policy.set_mode(Mode::BypassPermissions).is_err());
        policy.bypass = Bypass::Possible;
        policy.set_mode(Mode::BypassPermissions).unwrap();
        policy.set_mode(Mode::Plan).unwrap();
        policy.refuse_bypass();
        assert_eq!(policy.leave_plan(), Some(Mode::Default));
    }
}
