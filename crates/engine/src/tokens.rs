//! How many tokens something will cost, guessed without asking anybody, and set right by what the last answer
//! really cost. Guesses err on the high side: a request that turns out too long costs more than one that was cut a
//! little early.

use ostler_proto::{Block, Message, ToolSpec};

/// A picture of the largest size that is worth sending.
const PICTURE: u64 = 1600;
/// What a block or a message costs beside its text.
pub const FRAME: u64 = 4;

/// What a request was guessed to cost and what it did cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Measured {
    /// The guess.
    pub guessed: u64,
    /// What the API counted: plain, read from the cache and written to it.
    pub real: u64,
}

impl Measured {
    /// What a request costs that was guessed at `guessed`: what is known, and the rest by the same measure.
    pub fn set_right(self, guessed: u64) -> u64 {
        if guessed >= self.guessed {
            self.real + self.scaled(guessed - self.guessed)
        } else {
            self.scaled(guessed)
        }
    }

    /// A part of a request by the measure of the whole. Odd counts do not make the guess absurd.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "token counts are far below 2^52 and never negative"
    )]
    pub fn scaled(self, guessed: u64) -> u64 {
        let factor = (self.real as f64 / self.guessed.max(1) as f64).clamp(0.5, 2.0);
        (guessed as f64 * factor).round() as u64
    }
}

/// Text. Models see three to four bytes of prose or code as one token, and other scripts by the character.
pub fn of_text(text: &str) -> u64 {
    let narrow = text.bytes().filter(u8::is_ascii).count() as u64;
    let wide = text.chars().count() as u64 - narrow;
    narrow.div_ceil(4) + narrow / 28 + wide
}

/// One block as it is sent.
pub fn of_block(block: &Block) -> u64 {
    FRAME
        + match block {
            Block::Text(text) => of_text(text),
            Block::Thinking { text, signature } => of_text(text) + of_text(signature),
            Block::Image { .. } => PICTURE,
            Block::ToolUse(call) => of_text(&call.name) + of_text(&call.input.to_string()),
            Block::ToolResult(result) => result.content.iter().map(of_block).sum(),
            Block::Document { .. } | Block::Opaque(_) => {
                serde_json::to_string(block).map_or(0, |text| of_text(&text))
            }
        }
}

/// One message as it is sent.
pub fn of_message(message: &Message) -> u64 {
    FRAME + message.content.iter().map(of_block).sum::<u64>()
}

/// A tool as it is offered.
pub fn of_tool(tool: &ToolSpec) -> u64 {
    FRAME + of_text(&tool.name) + of_text(&tool.description) + of_text(&tool.schema.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn guesses_are_near_and_high() {
        assert_eq!(of_text(""), 0);
        assert_eq!(of_text("four"), 1);
        let prose = "The quick brown fox jumps over the lazy dog. ".repeat(100);
        // A real tokenizer makes 10 tokens of the sentence.
        assert!((1000..1500).contains(&of_text(&prose)), "{}", of_text(&prose));
        assert_eq!(of_text("日本語"), 3);
        assert_eq!(of_block(&Block::text("four")), FRAME + 1);
    }

    #[test]
    fn what_was_counted_sets_guesses_right() {
        let measured = Measured { guessed: 1_000, real: 800 };
        assert_eq!(measured.set_right(1_000), 800);
        assert_eq!(measured.set_right(1_500), 1_200);
        assert_eq!(measured.set_right(500), 400);
        assert_eq!(Measured { guessed: 1_000, real: 3 }.scaled(100), 50, "an odd count is not believed");
        assert_eq!(Measured { guessed: 0, real: 9 }.set_right(4), 9 + 8);
    }

    proptest! {
        #[test]
        fn longer_texts_never_cost_less(text in ".{0,40}", more in ".{0,40}") {
            let longer = format!("{text}{more}");
            prop_assert!(of_text(&longer) >= of_text(&text));
        }
    }
}
