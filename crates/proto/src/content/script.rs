//! What is needed to tell honest uses of shapeless characters from others: which scripts join, break or vary, and
//! what an emoji is. Ranges follow the Unicode blocks and are wider than the sets they stand for, never narrower.

/// Marks that combine with the letter before them.
pub(super) fn is_mark(character: char) -> bool {
    match character {
        // Latin, Han and Hangul, told at once.
        '\0'..='\u{2ff}' | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7ff}' => false,
        other => unicode_normalization::char::is_combining_mark(other),
    }
}

/// Scripts whose letters change shape with their neighbours, so that joiners mean something between them.
pub(super) fn joins(character: char) -> bool {
    matches!(character,
        '\u{600}'..='\u{8ff}' // Arabic, Syriac, Thaana, N'Ko, Mandaic
        | '\u{900}'..='\u{dff}' // the scripts of India and Sri Lanka
        | '\u{f00}'..='\u{109f}' // Tibetan, Myanmar
        | '\u{1780}'..='\u{18af}' // Khmer, Mongolian
        | '\u{1a20}'..='\u{1aaf}' | '\u{1b00}'..='\u{1c4f}' | '\u{1cd0}'..='\u{1cff}'
        | '\u{a840}'..='\u{a8ff}' | '\u{a980}'..='\u{a9ff}' | '\u{aa60}'..='\u{aa7f}' | '\u{abc0}'..='\u{abff}'
        | '\u{fb50}'..='\u{fdcf}' | '\u{fdf0}'..='\u{fdff}' | '\u{fe70}'..='\u{fefc}'
        | '\u{10d00}'..='\u{10d3f}' | '\u{11000}'..='\u{11fff}' | '\u{1e900}'..='\u{1e95f}')
}

/// Scripts that write no space between words and may mark the places with an invisible one.
pub(super) fn breaks_invisibly(character: char) -> bool {
    matches!(character,
        '\u{e00}'..='\u{eff}' | '\u{f00}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' | '\u{1950}'..='\u{1aaf}'
        | '\u{a9e0}'..='\u{a9ff}' | '\u{aa60}'..='\u{aadf}' | '\u{3040}'..='\u{30ff}' | '\u{4e00}'..='\u{9fff}')
}

/// Scripts that run from right to left.
pub(super) fn runs_leftward(character: char) -> bool {
    matches!(character,
        '\u{590}'..='\u{8ff}' | '\u{fb1d}'..='\u{fdcf}' | '\u{fdf0}'..='\u{fdff}' | '\u{fe70}'..='\u{fefc}'
        | '\u{10800}'..='\u{10fff}' | '\u{1e800}'..='\u{1efff}')
        && !matches!(character, '\u{61c}')
}

/// Pictures, and signs that may be shown as such.
pub(super) fn is_pictograph(character: char) -> bool {
    matches!(character,
        '\u{a9}' | '\u{ae}' | '\u{203c}' | '\u{2049}' | '\u{2100}'..='\u{214f}' | '\u{2190}'..='\u{21ff}'
        | '\u{2300}'..='\u{27ff}' | '\u{2900}'..='\u{297f}' | '\u{2b00}'..='\u{2bff}'
        | '\u{3030}' | '\u{303d}' | '\u{3297}' | '\u{3299}' | '\u{1f000}'..='\u{1faff}')
}

/// What a keycap is made of.
pub(super) fn is_key(character: char) -> bool {
    matches!(character, '0'..='9' | '#' | '*')
}

/// Han characters, whose registered variants are told by selectors.
pub(super) fn is_ideograph(character: char) -> bool {
    matches!(character,
        '\u{3000}'..='\u{303f}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{323af}')
}

/// Other characters with standard variants: mathematics, Myanmar, Phags-pa, hieroglyphs, full-width signs, zero.
pub(super) fn has_variants(character: char) -> bool {
    matches!(character,
        '0' | '\u{1000}'..='\u{109f}' | '\u{2018}'..='\u{201f}' | '\u{2200}'..='\u{22ff}'
        | '\u{2a00}'..='\u{2aff}' | '\u{a840}'..='\u{a87f}' | '\u{ff01}'..='\u{ff1f}'
        | '\u{10ac0}'..='\u{10aff}' | '\u{13000}'..='\u{1342f}')
}

/// Mongolian letters, which have selectors of their own.
pub(super) fn is_mongolian(character: char) -> bool {
    matches!(character, '\u{1800}'..='\u{180a}' | '\u{1810}'..='\u{18af}' | '\u{11660}'..='\u{1167f}')
}

/// Private characters that fonts for terminals have icons at.
pub(super) fn is_icon(character: char) -> bool {
    matches!(character, '\u{e000}'..='\u{f8ff}' | '\u{f0001}'..='\u{f1af0}')
}

/// Characters left to private agreement.
pub(super) fn is_private(character: char) -> bool {
    matches!(character, '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..='\u{ffffd}' | '\u{100000}'..='\u{10fffd}')
}
