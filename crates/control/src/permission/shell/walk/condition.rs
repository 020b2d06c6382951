//! What `[[ ]]` looks at. Its comparisons of numbers compute with their operands, and its questions
//! about variables do so with subscripts.

use super::super::facts::{How, Word};
use super::super::syntax::Test;
use super::Walker;
use super::builtin::is_name;
use super::redirect::touch;

impl Walker<'_> {
    /// Walks a test.
    pub(super) fn test(&mut self, test: &Test) {
        match test {
            Test::Not(inner) => self.test(inner),
            Test::Both(left, right) | Test::Either(left, right) => {
                self.test(left);
                self.test(right);
            }
            Test::Unary { operator, operand } => {
                let word = self.single(operand);
                match operator.as_str() {
                    "-n" | "-z" | "-o" | "-t" => {}
                    "-v" | "-R" => self.asks_about(&word),
                    _ => self.looks_at(&word),
                }
            }
            Test::Binary { left, operator, right } => match operator.as_str() {
                "-eq" | "-ne" | "-lt" | "-le" | "-gt" | "-ge" => {
                    self.arithmetic(&left.parts);
                    self.arithmetic(&right.parts);
                }
                "-nt" | "-ot" | "-ef" => {
                    let (left, right) = (self.single(left), self.single(right));
                    self.looks_at(&left);
                    self.looks_at(&right);
                }
                _ => {
                    self.single(left);
                    self.single(right);
                }
            },
        }
    }

    /// Whether a variable is set; a subscript in its name is computed with.
    pub(super) fn asks_about(&mut self, word: &Word) {
        if !word.known().is_some_and(is_name) {
            self.trouble("a test of a variable may run commands in its subscript");
        }
    }

    fn looks_at(&mut self, word: &Word) {
        let places = self.scope.places.each();
        let touches = places.iter().filter_map(|place| touch(word, How::Read, place));
        self.touch(touches.collect(), false);
    }
}
