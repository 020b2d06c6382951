//! Lists, pipelines, branches, loops and functions: what runs in this shell, what runs apart from it,
//! and what may or may not have happened afterwards.

use super::super::facts;
use super::super::syntax::{Arm, Branch, Command, Item, Joint, Kind, Pipeline, Script, Word};
use super::scope::{Function, Places};
use super::variable::Value;
use super::{Ends, MANY, Walker, Within};

/// A loop with more values than this is walked once, for any value.
const MOST_VALUES: usize = 16;

impl Walker<'_> {
    /// Walks a list; where it ends depends on what its last item said.
    pub(super) fn script(&mut self, script: &Script) -> Ends {
        let mut ends = Ends { yes: self.scope.places.clone(), no: self.scope.places.clone() };
        for item in &script.items {
            ends = self.item(item);
            self.scope.places = ends.yes.clone().or(&ends.no);
        }
        ends
    }

    fn item(&mut self, item: &Item) -> Ends {
        if item.background {
            self.apart(Within::Background, |walker| {
                walker.chain(item);
            });
            return self.unmoved();
        }
        self.chain(item)
    }

    fn chain(&mut self, item: &Item) -> Ends {
        let mut ends = self.pipeline(&item.first);
        let mark = self.scope.mark();
        for (joint, pipeline) in &item.rest {
            match joint {
                Joint::And => {
                    self.scope.places = ends.yes;
                    let next = self.pipeline(pipeline);
                    ends = Ends { yes: next.yes, no: ends.no.or(&next.no) };
                }
                Joint::Or => {
                    self.scope.places = ends.no;
                    // What stands before `||` may have been left half-way.
                    self.scope.blur(mark);
                    let next = self.pipeline(pipeline);
                    ends = Ends { yes: ends.yes.or(&next.yes), no: next.no };
                    self.scope.blur(mark);
                }
            }
        }
        if !item.rest.is_empty() {
            self.scope.blur(mark);
        }
        ends
    }

    fn pipeline(&mut self, pipeline: &Pipeline) -> Ends {
        let ends = if let [command] = pipeline.stages.as_slice() {
            self.command(command)
        } else {
            for (index, command) in pipeline.stages.iter().enumerate() {
                self.apart(Within::Pipe { reads: index > 0 }, |walker| {
                    walker.command(command);
                });
            }
            self.unmoved()
        };
        if pipeline.negated { Ends { yes: ends.no, no: ends.yes } } else { ends }
    }

    fn command(&mut self, command: &Command) -> Ends {
        if let Kind::Simple(plain) = &command.kind {
            return self.simple(plain, &command.redirects);
        }
        self.compound_redirects(&command.redirects);
        match &command.kind {
            Kind::Simple(_) => self.unmoved(),
            Kind::Group(script) => self.script(script),
            Kind::Subshell(script) => {
                self.apart(Within::Subshell, |walker| {
                    walker.script(script);
                });
                self.unmoved()
            }
            Kind::If { branches, otherwise } => self.branches(branches, otherwise.as_ref()),
            Kind::While { condition, body } | Kind::Until { condition, body } => {
                let until = matches!(command.kind, Kind::Until { .. });
                self.repeat(|walker| {
                    let ends = walker.script(condition);
                    let (stays, leaves) = if until { (ends.no, ends.yes) } else { (ends.yes, ends.no) };
                    walker.scope.places = stays;
                    walker.script(body);
                    walker.scope.places = leaves.or(&walker.scope.places);
                })
            }
            Kind::For { name, words, body } => self.over_words(name, words.as_deref(), body),
            Kind::Select { name, words, body } => {
                for word in words.iter().flatten() {
                    self.fields(word);
                }
                self.repeat(|walker| {
                    walker.scope.assign(name, Value::Unknown);
                    walker.scope.assign("REPLY", Value::Unknown);
                    walker.script(body);
                })
            }
            Kind::Count { start, condition, step, body } => {
                self.arithmetic(&start.parts);
                self.repeat(|walker| {
                    walker.arithmetic(&condition.parts);
                    walker.script(body);
                    walker.arithmetic(&step.parts);
                })
            }
            Kind::Case { subject, arms } => self.arms(subject, arms),
            Kind::Function { name, body } => self.define(name, body),
            Kind::Test(test) => {
                self.test(test);
                self.unmoved()
            }
            Kind::Arithmetic(arithmetic) => {
                self.arithmetic(&arithmetic.parts);
                self.unmoved()
            }
            Kind::Coprocess { name, body } => {
                self.apart(Within::Background, |walker| {
                    walker.command(body);
                });
                self.scope.assign(name.as_deref().unwrap_or("COPROC"), Value::Unknown);
                self.unmoved()
            }
        }
    }

    pub(super) fn unmoved(&self) -> Ends {
        Ends { yes: self.scope.places.clone(), no: self.scope.places.clone() }
    }

    fn branches(&mut self, branches: &[Branch], otherwise: Option<&Script>) -> Ends {
        let mark = self.scope.mark();
        let mut after: Option<Places> = None;
        let mut add = |places: Places| {
            after = Some(match after.take() {
                Some(others) => others.or(&places),
                None => places,
            });
        };
        for branch in branches {
            let ends = self.script(&branch.condition);
            self.scope.places = ends.yes;
            self.inside(Within::Condition, |walker| walker.script(&branch.body));
            add(self.scope.places.clone());
            self.scope.blur(mark);
            self.scope.places = ends.no;
        }
        if let Some(script) = otherwise {
            self.inside(Within::Condition, |walker| walker.script(script));
            self.scope.blur(mark);
        }
        add(self.scope.places.clone());
        self.scope.places = after.unwrap_or(Places::Unknown);
        self.unmoved()
    }

    fn arms(&mut self, subject: &Word, arms: &[Arm]) -> Ends {
        self.single(subject);
        let mark = self.scope.mark();
        let before = self.scope.places.clone();
        let mut after = before.clone();
        for arm in arms {
            for pattern in &arm.patterns {
                self.single(pattern);
            }
            // An arm may begin where the one before ended (`;&`).
            self.scope.places = after.clone();
            self.inside(Within::Condition, |walker| walker.script(&arm.body));
            after = after.or(&self.scope.places);
            self.scope.blur(mark);
        }
        self.scope.places = after;
        self.unmoved()
    }

    /// Walks something that may happen any number of times: once to learn what it changes, and once
    /// more with all that unsure.
    fn repeat(&mut self, mut walk: impl FnMut(&mut Self)) -> Ends {
        let mark = self.rehearse(&mut walk);
        if self.rehearsals == 0 {
            let before = self.scope.places.clone();
            self.inside(Within::Loop, &mut walk);
            self.scope.places = before.or(&self.scope.places);
            self.scope.blur(mark);
        }
        self.unmoved()
    }

    fn rehearse(&mut self, walk: &mut impl FnMut(&mut Self)) -> super::scope::Mark {
        let mark = self.scope.mark();
        let before = self.scope.places.clone();
        self.rehearsals += 1;
        self.inside(Within::Loop, walk);
        self.rehearsals -= 1;
        self.scope.blur(mark);
        if self.scope.places != before {
            self.scope.places = Places::Unknown;
        }
        mark
    }

    fn over_words(&mut self, name: &str, words: Option<&[Word]>, body: &Script) -> Ends {
        let fields: Option<Vec<facts::Word>> =
            words.map(|words| words.iter().flat_map(|word| self.fields(word)).collect());
        let met = self.met;
        let any = |walker: &mut Self| {
            walker.scope.assign(name, Value::Unknown);
            walker.script(body);
        };
        let mark = self.rehearse(&mut { any });
        if self.rehearsals > 0 {
            return self.unmoved();
        }
        let size = self.met - met;
        let known: Option<Vec<Value>> = fields.and_then(|fields| fields.iter().map(value_of).collect());
        let few = known.filter(|values| {
            values.len() <= MOST_VALUES && self.commands.len() + values.len() * size <= MANY
        });
        let before = self.scope.places.clone();
        match few {
            Some(values) if !values.is_empty() => {
                for value in values {
                    self.scope.blur(mark);
                    self.scope.assign(name, value);
                    self.inside(Within::Loop, |walker| walker.script(body));
                    self.scope.places = before.clone().or(&self.scope.places);
                }
            }
            Some(_) | None => self.inside(Within::Loop, any),
        }
        self.scope.places = before.or(&self.scope.places);
        self.scope.blur(mark);
        self.unmoved()
    }

    /// Walks a function's body where it is defined, as it may run at any later point.
    fn define(&mut self, name: &str, body: &Command) -> Ends {
        let places = self.scope.places.clone();
        let function = Function { certain: true, assigns: Vec::new(), moves: false, places: places.clone() };
        self.scope.define(name, function.clone());
        let mark = self.scope.enter_body();
        self.defining.push(name.to_owned());
        self.inside(Within::Function, |walker| walker.command(body));
        self.defining.pop();
        let moves = self.scope.places != places;
        let assigns = self.scope.leave_body(mark);
        self.scope.places = places;
        self.scope.define(name, Function { assigns, moves, ..function });
        self.unmoved()
    }
}

/// What a loop's variable holds for one of its words.
fn value_of(word: &facts::Word) -> Option<Value> {
    match word {
        facts::Word::Known(text) => Some(Value::Known(text.clone())),
        facts::Word::Glob(pattern) => Some(Value::Pattern(pattern.clone())),
        facts::Word::Unknown { .. } => None,
    }
}
