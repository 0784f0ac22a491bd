//! An estimate of a text's tokens from its characters, for models whose tokenizer is not known.
//!
//! A text is read once, character by character. Each costs a share of a token that depends on its kind and on how many of
//! the kind came before it in a row: a word costs about one token and a little more for each character beyond the fifth,
//! three digits cost one, a Chinese character three quarters. The shares were fitted to OpenAI's o200k vocabulary on prose,
//! code and data in several scripts; those in `texts/` hold them to [`ERROR_PER_MILLE`].

use base::Tokens;

/// How far an estimate may be from the count of an ordinary text of a few hundred characters, in thousandths.
pub const ERROR_PER_MILLE: u64 = 150;

/// An estimate that grows with its text. Where the text is cut into pieces does not matter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Estimate {
    milli_tokens: u64,
    /// The kind of the last characters, and how many there were.
    run: Option<(Kind, u32)>,
    /// Whether the run before it was a blank or a line break.
    spaced: bool,
}

/// Kinds of characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Latin letters; a capital behind a small one begins a word of its own.
    Small,
    /// Latin capitals.
    Capital,
    Digit,
    /// Spaces and tabs.
    Blank,
    Line,
    /// ASCII punctuation.
    Mark,
    Han,
    /// Kana and Hangul.
    Syllable,
    /// Punctuation and full-width forms of East Asian scripts.
    WideMark,
    Cyrillic,
    /// Letters of other scripts.
    Letter,
    /// Emoji and all else.
    Symbol,
}

impl Estimate {
    /// The estimate of a whole text.
    #[must_use]
    pub fn of(text: &str) -> Tokens {
        let mut estimate = Self::default();
        estimate.add(text);
        estimate.tokens()
    }

    /// More of the text.
    pub fn add(&mut self, more: &str) {
        more.chars().for_each(|character| self.take(Kind::of(character)));
    }

    /// Tokens so far, rounded up.
    #[must_use]
    pub const fn tokens(&self) -> Tokens {
        Tokens(self.milli_tokens.div_ceil(1_000))
    }

    fn take(&mut self, kind: Kind) {
        let place = match self.run {
            Some((last, count)) if kind.goes_on(last) => count.saturating_add(1),
            last => {
                self.spaced = matches!(last, Some((Kind::Blank | Kind::Line, _)));
                1
            }
        };
        self.run = Some((kind, place));
        self.milli_tokens = self.milli_tokens.saturating_add(kind.share(place, self.spaced));
    }
}

impl Kind {
    fn of(character: char) -> Self {
        match character {
            'a'..='z' | 'ß'..='ö' | 'ø'..='ÿ' | '\'' => Self::Small,
            'A'..='Z' | 'À'..='Ö' | 'Ø'..='Þ' => Self::Capital,
            '0'..='9' => Self::Digit,
            ' ' | '\t' => Self::Blank,
            '\n' | '\r' => Self::Line,
            '!'..='~' => Self::Mark,
            '\u{100}'..='\u{24f}' | '\u{1e00}'..='\u{1eff}' => Self::Small,
            '\u{400}'..='\u{52f}' => Self::Cyrillic,
            '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{20000}'..='\u{3ffff}' => Self::Han,
            '\u{3041}'..='\u{30ff}' | '\u{ac00}'..='\u{d7a3}' => Self::Syllable,
            '\u{2010}'..='\u{201f}' | '\u{3000}'..='\u{303f}' | '\u{ff00}'..='\u{ffef}' => Self::WideMark,
            letter if letter.is_alphabetic() => Self::Letter,
            // Signs of vowels and the like belong to the letters before them.
            '\u{300}'..='\u{36f}' | '\u{600}'..='\u{1fff}' => Self::Letter,
            _other => Self::Symbol,
        }
    }

    /// Whether it belongs to the run that `last` ended.
    const fn goes_on(self, last: Self) -> bool {
        matches!(
            (last, self),
            (Self::Small | Self::Capital, Self::Small)
                | (Self::Capital, Self::Capital)
                | (Self::Digit, Self::Digit)
                | (Self::Blank, Self::Blank)
                | (Self::Line, Self::Line | Self::Blank)
                | (Self::Mark, Self::Mark)
                | (Self::Cyrillic, Self::Cyrillic)
                | (Self::Letter, Self::Letter)
        )
    }

    /// Thousandths of a token that the character at this place of its run costs, from 1; `spaced`: the run follows a blank or
    /// a line break.
    const fn share(self, place: u32, spaced: bool) -> u64 {
        match (self, place) {
            (Self::Small | Self::Capital, 1) => 1_000,
            (Self::Small | Self::Capital, 6..=11) => 80,
            (Self::Small | Self::Capital, 12..) => 380,
            (Self::Digit, _) if place % 3 == 1 => 1_000 + if place == 1 && spaced { 800 } else { 0 },
            (Self::Blank, 2) => 1_000,
            (Self::Line, 1) => 250,
            (Self::Mark, 1) => 800,
            (Self::Mark, _) => 50,
            (Self::Han, _) => 740,
            (Self::Syllable, _) => 790,
            (Self::WideMark, _) => 950,
            (Self::Cyrillic | Self::Letter, 1) => 1_000,
            (Self::Cyrillic, _) => 125,
            (Self::Letter, _) => 210,
            (Self::Symbol, _) => 1_500,
            (Self::Small | Self::Capital | Self::Digit | Self::Blank | Self::Line, _) => 0,
        }
    }
}

#[cfg(test)]
mod tests;
