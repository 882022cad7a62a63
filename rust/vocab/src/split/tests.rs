//! Splitters by hand against regular expressions.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex};

use proptest::prelude::*;
use proptest::sample::select;

use super::Splitter;
use super::blocks::Words;
use super::classes::{
    CHINESE, Classes, HAN, LETTER, LOWER, MARK, Mask, NEWLINE, NUMBER, SIGN, SPACE, UPPER,
};
use super::known_patterns::{
    CL100K, DEEPSEEK_CHINESE, DEEPSEEK_V3, KNOWN, NAMES, NUMBERS_BY_THREES, UP_TO_THREE,
};
use super::masks::{
    Cases, Firsts, Halves, Masks, Prose, WITHOUT, controls, controls_of_bytes, leads,
    leads_of_bytes,
};
use super::matcher::Work;
use super::regex::{Dialect, Regex};
use super::runs::Runs;
use super::scan::Known;
use super::threes::{self, Threes};
use super::wide::{Letters, Others};

/// Pieces by the splitter.
fn pieces<'a>(splitter: &Splitter, text: &'a str) -> Vec<&'a str> {
    let mut pieces = Vec::new();
    splitter.split(text, |piece| pieces.push(piece));
    pieces
}

/// Pieces by the regular expressions alone.
fn by_regex<'a>(patterns: &[&str], text: &'a str) -> Vec<&'a str> {
    let mut pieces = vec![text];
    pieces.retain(|piece| !piece.is_empty());
    for pattern in patterns {
        let regex = compiled(pattern);
        pieces = pieces.into_iter().flat_map(|piece| isolated(&regex, piece)).collect();
    }
    pieces
}

/// The regular expression, compiled once.
fn compiled(pattern: &str) -> fancy_regex::Regex {
    static KNOWN: LazyLock<Mutex<HashMap<String, fancy_regex::Regex>>> =
        LazyLock::new(Mutex::default);
    let mut known = KNOWN.lock().unwrap();
    // A word ends where no character of one follows: digits stand before it in these patterns.
    let compile = || {
        let end = format!("(?!{})", threes::ONIGURUMA_WORD);
        fancy_regex::Regex::new(&pattern.replace(r"\b", &end)).unwrap()
    };
    known.entry(pattern.to_owned()).or_insert_with(compile).clone()
}

/// The splitter of that name, made once.
fn named(name: &'static str) -> Splitter {
    static KNOWN: LazyLock<Mutex<HashMap<&str, Splitter>>> = LazyLock::new(Mutex::default);
    let mut known = KNOWN.lock().unwrap();
    known.entry(name).or_insert_with(|| Splitter::by_name(name).unwrap()).clone()
}

fn isolated<'a>(regex: &fancy_regex::Regex, text: &'a str) -> Vec<&'a str> {
    let mut pieces = Vec::new();
    let mut done = 0;
    for found in regex.find_iter(text) {
        let found = found.unwrap();
        pieces.extend([&text[done..found.start()], found.as_str()]);
        done = found.end();
    }
    pieces.push(&text[done..]);
    pieces.retain(|piece| !piece.is_empty());
    pieces
}

/// Characters that patterns treat differently, each often beside each.
fn nasty_char() -> impl Strategy<Value = char> {
    let chars: Vec<char> = " \n\r\t'/.aAzZsStTmMdDlLrRvVeE019-_!(\u{85}\u{a0}\u{180e}\u{2028}\u{3000}\u{0}\u{1f}\
        \u{17f}\u{212a}\u{301}\u{e33}\u{903}ǅʰªßẞ中ひカ가۔،٣½Ⅷ€+😀\u{200d}\u{200b}\u{feff}\u{e000}\u{10ffff}\u{378}µéÉžŽ𝔸𐐀𐐨一龥\u{800}"
        .chars()
        .collect();
    select(chars)
}

fn nasty_text() -> impl Strategy<Value = String> {
    let some = prop::collection::vec(nasty_char(), 0..24);
    let any = prop::collection::vec(prop_oneof![3 => nasty_char(), 1 => any::<char>()], 0..24);
    let words = prop::collection::vec(
        prop_oneof![
            3 => nasty_char().prop_map(String::from),
            2 => select(vec!["'s", "'LL", "'Re", "'ſ", "  ", "\n\n", " \n ", "ABc", "aBC", "123456", "//\n", "中AA", "ʰA"])
                .prop_map(str::to_owned),
        ],
        0..12,
    );
    prop_oneof![
        some.prop_map(String::from_iter),
        any.prop_map(String::from_iter),
        words.prop_map(|words| words.concat()),
    ]
}

/// Text that is nearly all ASCII, and long enough for whole blocks.
fn ascii_text() -> impl Strategy<Value = String> {
    let words = vec![
        " ", "  ", "\t", "\n", "\r\n", "\n\n", " \n", "\n  ", "a", "word", "Words", " the", "'s",
        "'LL", "'", "'st", "''s", "!", "!!", "!\n", "(a", ".\n\n  ", "1", "12", "123", "1234567",
        "\u{b}", "\0", "\u{1c}", "ABC", "aBCd", "it's", "'S", "'lL", "'rex", "/", ",\n/", "\n/\n",
    ];
    let word = prop_oneof![60 => select(words), 1 => select(vec!["é", "\u{a0}", "中", "ſ"])];
    prop::collection::vec(word, 20..100).prop_map(|words| words.concat())
}

/// Text of characters of one byte to four, long enough for whole blocks.
fn mixed_text() -> impl Strategy<Value = String> {
    let words = vec![
        " ",
        "  ",
        "\n",
        " \n",
        "\n ",
        "a",
        "Word",
        " the",
        "'s",
        "'",
        "!",
        "!!",
        "12",
        "1234",
        "中",
        "文字",
        " 中",
        "ひら",
        "テスト",
        " テスト",
        "ー",
        "한",
        "，",
        "。",
        " ，",
        "！a",
        "!，",
        "，!",
        "。\n",
        "😀",
        "😀😀",
        " 😀",
        "👩\u{200d}👧",
        "❤\u{fe0f}",
        "\u{200d}",
        "🏽",
        "é",
        "É",
        "×",
        "٣",
        "１",
        "½",
        "\u{301}",
        "a\u{301}",
        "\u{3000}",
        "\u{a0}",
        "'ſ",
        "ſ",
        "𝔸",
        "中A",
        "AB中",
        "aB",
        "ʰ",
        "Жд",
        "𐐀𐐨",
        "〇",
        "々",
        "⺀",
        "!é",
        "!aé",
        "\u{200b}a",
        "\u{200b}é",
        "\u{1}a",
        "ก็",
        "हिन्दी",
        " भाषा",
        "!ि",
        "\u{9f7f}",
        "\u{9f80}",
        "\u{9fa5}",
        "\u{9fa6}",
        "\u{3099}",
        "\u{309b}",
        "・",
        "\u{2028}",
        "\u{85}",
        "\u{212a}",
        "\u{200b}\u{200b}",
        "使用API接口",
        "用API ",
        "中aあB",
        "あ・い",
        "・・",
        "・！",
        "゠\n",
        "\u{3040}あ",
        "文字文字文字文字文字文字文字文字文字文字文字文字",
        "\u{e000}",
        "\u{378}",
        "\0",
        "…",
    ];
    let word = prop_oneof![
        8 => select(words).prop_map(str::to_owned),
        1 => any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(word, 20..80).prop_map(|words| words.concat())
}

/// Text of letters of one byte and of two, long enough for whole blocks.
fn european_text() -> impl Strategy<Value = String> {
    let words = vec![
        " ",
        "  ",
        "\n",
        " \n",
        "é",
        "É",
        "été",
        " À",
        "ÇA",
        "ß",
        "ÿ",
        "×",
        "÷",
        "Straße",
        " naïve",
        "ł",
        "Ž",
        "ſ",
        "'ſ",
        "'é",
        "'sé",
        "ABÉ",
        "éAB",
        "Ôter",
        "жук",
        "Жук",
        "ЖУК",
        "ёж",
        "Ёж",
        "ѣ",
        "Ѡ",
        "ѡ",
        "҂",
        "ҁ",
        "é1",
        "12é",
        "!é",
        "!!é",
        "é's",
        "É'LL",
        "word",
        " the",
        "Word",
        "'",
        "1",
        "\n\né",
        "ǅ",
        "ȿ",
        "ɐ",
        "е\u{301}",
        "中",
        "😀",
        "\u{a0}",
        "ª",
        "µ",
        "/\né",
    ];
    prop::collection::vec(select(words), 12..60).prop_map(|words| words.concat())
}

fn cases() -> ProptestConfig {
    let long = std::env::var_os("CHATCODEC_LONG").is_some();
    ProptestConfig {
        cases: if long { 100_000 } else { 2_500 },
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// Patterns that are runs.
static RUNS: LazyLock<Vec<(&str, Runs)>> = LazyLock::new(|| {
    let patterns = [
        r"\p{N}",
        r"\p{N}{1,3}",
        r"\p{N}+",
        r"[\r\n]",
        r"\s?\p{L}+",
        r"\s?\p{P}+",
        r" ?[^(\s|.,!?…。，、।۔،)]+",
        r"\s?[!-/\s]{1,2}",
        "a",
        " ?a+",
    ];
    patterns.map(|pattern| (pattern, Runs::from_pattern(pattern).unwrap())).to_vec()
});

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn known_patterns_are_their_regular_expressions(
        text in prop_oneof![nasty_text(), ascii_text(), european_text(), mixed_text()],
        without_vectors in any::<bool>(),
    ) {
        WITHOUT.set(without_vectors);
        for (pattern, known) in KNOWN {
            let found = pieces(&Splitter::Known(*known), &text);
            prop_assert_eq!(found, by_regex(&[pattern], &text), "{}", pattern);
        }
        let found = Splitter::from_oniguruma(CL100K).unwrap();
        let pattern = CL100K.replace(r"\p{N}{1,3}+", r"\p{N}+");
        prop_assert_eq!(pieces(&found, &text), by_regex(&[&pattern], &text));
    }

    #[test]
    fn runs_are_their_regular_expressions(text in nasty_text()) {
        for (pattern, runs) in RUNS.iter() {
            let splitter = Splitter::Runs(runs.clone());
            prop_assert_eq!(pieces(&splitter, &text), by_regex(&[pattern], &text), "{}", pattern);
        }
    }

    #[test]
    fn names_are_their_regular_expressions(
        text in prop_oneof![3 => nasty_text(), 1 => ascii_text(), 2 => european_text(), 3 => mixed_text()],
        without_vectors in any::<bool>(),
    ) {
        WITHOUT.set(without_vectors);
        for (names, patterns) in NAMES {
            let splitter = named(names[0]);
            prop_assert_eq!(pieces(&splitter, &text), by_regex(patterns, &text), "{}", names[0]);
        }
    }

    #[test]
    fn places_that_always_part_do(text in nasty_text()) {
        let known = KNOWN.iter().map(|(_, known)| Splitter::Known(*known));
        let named = NAMES.iter().map(|(names, _)| named(names[0]));
        for splitter in known.chain(named) {
            let whole = pieces(&splitter, &text);
            for (at, right) in text.char_indices().skip(1) {
                let left = text[..at].chars().next_back().unwrap();
                if splitter.always_parts(left, right) {
                    let (before, after) = text.split_at(at);
                    let apart = [pieces(&splitter, before), pieces(&splitter, after)].concat();
                    prop_assert_eq!(&whole, &apart, "{:?} at {}", splitter, at);
                }
            }
        }
    }

    #[test]
    fn any_pattern_keeps_all_text(text in nasty_text(), pattern in "[a(\\[|)*?+.\\\\\\]s{1,3}^!=<p]{1,12}") {
        if let Ok(splitter) = Splitter::from_pattern(&pattern) {
            let found = pieces(&splitter, &text);
            prop_assert!(found.iter().all(|piece| !piece.is_empty()));
            prop_assert_eq!(found.concat(), text);
        }
    }
}

#[test]
fn vocabularies_of_today_have_scanners() {
    for name in ["llama3", "qwen2", "qwen35", "o200k", "tekken", "kimi-k2", "deepseek-v3"] {
        assert!(matches!(named(name), Splitter::Known(_)), "{name}");
    }
    for chinese in DEEPSEEK_CHINESE {
        let patterns = [UP_TO_THREE, chinese, DEEPSEEK_V3];
        let splitters = patterns.map(|pattern| Splitter::from_oniguruma(pattern).unwrap());
        let splitter = Splitter::sequence(splitters.to_vec());
        assert!(matches!(splitter, Splitter::Known(Known::DeepSeekV3Whole)), "{chinese}");
    }
}

#[test]
fn masks_are_the_classes_of_bytes() {
    for first in 0..=u8::MAX {
        let block = std::array::from_fn(|at| first.wrapping_add((at as u8).wrapping_mul(37)));
        assert_eq!(Masks::of(&block), Masks::of_bytes(&block), "{block:?}");
        assert_eq!(Prose::of(&block), Prose::of_bytes(&block), "{block:?}");
        assert_eq!(Cases::of(&block), Cases::of_bytes(&block), "{block:?}");
        assert_eq!(Halves::of(&block), Halves::of_bytes(&block), "{block:?}");
        assert_eq!(Firsts::of(&block), Firsts::of_bytes(&block), "{block:?}");
        assert_eq!(leads(&block), leads_of_bytes(&block), "{block:?}");
        assert_eq!(controls(&block), controls_of_bytes(&block), "{block:?}");
    }
}

/// In blocks of one character again and again, at every place.
#[test]
fn known_letters_are_of_their_classes() {
    let classes = Classes::of_unicode();
    let cased = Words::Cased { contractions: true, han: false };
    let mut count = 0;
    for c in ('\u{80}'..='\u{7FF}').filter(|c| *c != 'ſ') {
        let text = format!("{}{c}", "a".repeat(c as usize % 2)).repeat(40);
        let block: &[u8; 64] = text.as_bytes().first_chunk().unwrap();
        let masks = Masks::of(block);
        let class = classes.of_code_point(c.into());
        for words in [Words::Whole { marks: false }, Words::BetweenNumbers, cased] {
            let letters = Letters::of(block, words, 0);
            let whole = if text.is_char_boundary(64) { u64::MAX } else { u64::MAX >> 1 };
            assert!(letters.all == 0 || letters.all == masks.wide & whole, "{c:?} {words:?}");
            assert!(letters.all == 0 || class & LETTER != 0, "{c:?} {words:?}");
            if words == cased && letters.all != 0 {
                let (is, is_not) = if letters.upper == 0 { (LOWER, UPPER) } else { (UPPER, LOWER) };
                assert!(letters.upper == 0 || letters.upper == letters.all, "{c:?}");
                assert_eq!(class & (UPPER | LOWER), is, "{c:?} is not {is_not}");
            }
            count += usize::from(letters.all != 0);
        }
    }
    // U+00C0 to U+027F without the two signs and `ſ`, U+0400 to U+047F; with cases, up to U+00FF and U+045F.
    assert_eq!(count, 2 * (0x1C0 - 3 + 0x80) + 0x40 - 2 + 0x60);
}

/// In blocks of one character again and again, with one letter or two before each.
#[test]
fn further_characters_are_of_their_classes() {
    let classes = Classes::of_unicode();
    let all = [
        Words::Whole { marks: false },
        Words::Whole { marks: true },
        Words::Cased { contractions: true, han: false },
        Words::Cased { contractions: true, han: true },
        Words::BetweenNumbers,
    ];
    for c in '\u{80}'..=char::MAX {
        let text = format!("{}{c}", "a".repeat(1 + c as usize % 2)).repeat(64);
        let block: &[u8; 64] = text.as_bytes().first_chunk().unwrap();
        assert_eq!(Firsts::of(block), Firsts::of_bytes(block), "{c:?}");
        let wide = Masks::of(block).wide;
        let class = classes.of_code_point(c.into());
        let is = |classes: Mask| class & classes != 0;
        for words in all {
            let others = Others::of(block, wide, words);
            let is_chinese = match words {
                Words::BetweenNumbers => is(CHINESE) && is(LETTER | MARK | SIGN),
                Words::Cased { han, .. } => han && is(HAN) && is(LETTER),
                Words::Whole { .. } => false,
            };
            let is_letter = match words {
                Words::BetweenNumbers => is(LETTER | MARK) && !is_chinese && !is(SIGN),
                Words::Whole { marks } => is(LETTER) || marks && is(MARK),
                Words::Cased { han, .. } => is(LETTER | MARK) && !(han && is(HAN)),
            };
            let is_sign = match words {
                Words::BetweenNumbers => is(SIGN) && !is(CHINESE),
                Words::Whole { .. } => !(is_letter || is(SPACE | NUMBER)),
                Words::Cased { han, .. } => !(is(LETTER | SPACE | NUMBER | MARK) || han && is(HAN)),
            };
            let is_known = is(LETTER | MARK | SIGN | CHINESE | SPACE | NUMBER);
            let is_cased = matches!(words, Words::Cased { .. }) && is_letter;
            let expected = [
                is_letter,
                is_sign,
                is_chinese,
                is_cased && is(UPPER) && !is(LOWER),
                is_cased && is(UPPER) && is(LOWER),
                words == Words::BetweenNumbers && !is_known,
                is_cased && is(MARK),
                words == Words::BetweenNumbers && is_chinese && is(SIGN),
            ];
            let Others { letter, sign, chinese, chinese_sign, .. } = others;
            let Others { upper, caseless, unmatched, mark, .. } = others;
            let found = [letter, sign, chinese, upper, caseless, unmatched, mark, chinese_sign];
            let expected = expected.map(|expected| expected && c != 'ſ');
            assert_eq!(found.map(|bytes| bytes != 0), expected, "{c:?} {words:?}");
            // The end of the block may cut the last characters.
            let most = wide & u64::MAX >> 6;
            for bytes in found.into_iter().filter(|&bytes| bytes != 0) {
                assert_eq!((bytes & !wide, !bytes & most), (0, 0), "{c:?} {words:?}");
            }
        }
    }
}

#[test]
fn runs_of_a_class_end_where_its_characters_do() {
    let classes = Classes::of_unicode();
    for (mask, others) in [(LETTER, "1 -"), (NUMBER, "a -"), (SPACE, "a1-"), (SIGN, "a1 ")] {
        for c in ('\u{7F}'..='\u{FFFF}').step_by(7) {
            let is_one = classes.of_code_point(c.into()) & mask != 0;
            for other in others.chars() {
                let text = format!("{c}{c}{other}");
                let end = if is_one { 2 * c.len_utf8() } else { 0 };
                assert_eq!(classes.run(&text, 0, mask), end, "{text:?}");
            }
        }
    }
}

#[test]
fn every_character_is_of_the_classes_of_its_expressions() {
    let classes = Classes::of_unicode();
    let all: [(Mask, &str); 10] = [
        (LETTER, r"\p{L}"),
        (NUMBER, r"\p{N}"),
        (SPACE, r"\s"),
        (MARK, r"\p{M}"),
        (SIGN, r"[\p{P}\p{S}]"),
        (UPPER, r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"),
        (LOWER, r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"),
        (NEWLINE, r"[\r\n]"),
        (HAN, r"\p{Han}"),
        (CHINESE, DEEPSEEK_CHINESE[0].trim_end_matches('+')),
    ];
    for (mask, pattern) in all {
        let regex = fancy_regex::Regex::new(pattern).unwrap();
        let mut count = 0;
        for c in '\0'..=char::MAX {
            let text = c.to_string();
            let is_match = regex.is_match(&text).unwrap();
            count += usize::from(is_match);
            assert_eq!(classes.of_code_point(c.into()) & mask != 0, is_match, "{c:?} {pattern}");
            assert_eq!(
                classes.at(&text, 0),
                (classes.of_code_point(c.into()), text.len()),
                "{c:?}"
            );
        }
        assert!(count > 1, "{pattern}");
    }
}

/// What the expressions of the known patterns cost a backtracking engine, they do not cost here.
#[test]
fn long_runs_are_linear() {
    for filling in [
        " ", "a", "A", "'", "\n", " \n", "中", "中A", "\u{301}", "1", "/", "'s", "\u{3000}", "!",
        "\0",
    ] {
        for end in ["", "x", "\n", "A", "!"] {
            let text = filling.repeat(200_000 / filling.len()) + end;
            let started = std::time::Instant::now();
            for (_, known) in KNOWN {
                let mut bytes = 0;
                Splitter::Known(*known).split(&text, |piece| bytes += piece.len());
                assert_eq!(bytes, text.len());
            }
            for (names, _) in NAMES {
                let mut bytes = 0;
                named(names[0]).split(&text, |piece| bytes += piece.len());
                assert_eq!(bytes, text.len());
            }
            let took = started.elapsed();
            assert!(took.as_secs() < 5, "{filling:?} and {end:?} took {took:?}");
        }
    }
}

/// Patterns whose work grows with more than the length of a text.
const HOSTILE: [(&str, &str); 5] = [
    (r"(?:a|b|ab)*(?=c)(?<=c)|x", "ab"),
    (r"a*a*a*c|a", "a"),
    (r"(?=(?:a+)+$)c|a|b", "a"),
    (r"(?=(\d{3})+(?!\d)x)", "1"),
    (r"(?=.*b)a", "a"),
];

#[test]
fn a_text_that_takes_too_many_steps_is_refused() {
    for (pattern, filling) in HOSTILE {
        let splitter = Splitter::from_pattern(pattern).unwrap();
        let text = filling.repeat(50_000 / filling.len()) + "b";
        let started = std::time::Instant::now();
        let mut bytes = 0;
        let refused = splitter.ends(&text, |ends| bytes = ends.from + 1).unwrap_err().to_string();
        assert!(refused.contains("takes more steps"), "{pattern}: {refused}");
        // All of the text is told, whatever becomes of it.
        assert_eq!(bytes, text.len(), "{pattern}");
        // And again, in pieces: what is left is left for all of them.
        let pieces = Splitter::sequence(vec![Splitter::digits(true), splitter]);
        let text = format!("{}b1", &text[..5_000]).repeat(20);
        assert!(filling.starts_with('1') || pieces.ends(&text, |_| ()).is_err(), "{pattern}");
        let took = started.elapsed();
        assert!(took.as_secs() < 20, "{pattern} took {took:?}");
    }
}

/// The steps of each byte, of real patterns: far from the most there may be.
#[test]
fn real_patterns_take_few_steps() {
    for filling in [
        " ",
        "a",
        "A",
        "'",
        "\n",
        " \n",
        "中",
        "中A",
        "\u{301}",
        "1",
        "/",
        "'s",
        "\u{3000}",
        "!",
        "\0",
        "don't 12,345 WE'LL (x)\n\n    return",
        "가 나",
        "a b",
    ] {
        for end in ["", "x", "\n", "A", "!"] {
            let text = filling.repeat(20_000 / filling.len()) + end;
            let regexes = NAMES.iter().flat_map(|(names, patterns)| {
                patterns.iter().map(move |pattern| (names[0], *pattern))
            });
            let known = KNOWN.iter().map(|(pattern, _)| ("known", *pattern));
            for (name, pattern) in regexes.chain(known) {
                if Threes::from_pattern(pattern).is_some() || pattern == NUMBERS_BY_THREES {
                    continue;
                }
                let Ok(regex) = Regex::new(pattern, Dialect::Rust) else { continue };
                let work = Work::of_text(&text);
                let before = work.left();
                regex.split(&text, &work, &mut |_| ());
                let steps = (before - work.left()) / text.len() as u64;
                assert!(steps <= 120, "{name}: {steps} steps a byte of {filling:?} and {end:?}");
            }
        }
    }
}

/// Patterns of all that patterns are made of.
fn pattern() -> impl Strategy<Value = String> {
    let one = select(vec![
        "a", "b", ".", "[ab]", r"\s", r"\d", "[^a]", "é", "(?i:k)", r"\p{L}", "ab", r"(?s:.)", "^",
        "$", r"\b",
    ]);
    one.prop_map(str::to_owned).prop_recursive(3, 12, 3, |inner| {
        let many =
            select(vec!["*", "+", "?", "{2}", "{1,2}", "{0,1}", "*?", "+?", "??", "++", "?+"]);
        let around = select(vec!["(?:", "(", "(?=", "(?!", "(?>", "(?<=", "(?<!"]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 1..4).prop_map(|parts| parts.concat()),
            prop::collection::vec(inner.clone(), 2..4)
                .prop_map(|parts| format!("(?:{})", parts.join("|"))),
            (inner.clone(), many).prop_map(|(inner, many)| format!("(?:{inner}){many}")),
            (around, inner).prop_map(|(open, inner)| format!("{open}{inner})")),
        ]
    })
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn any_pattern_is_matched_as_the_library_matches_it(
        pattern in pattern(),
        texts in prop::collection::vec("[abké 1\n]{0,8}", 1..6),
    ) {
        let Ok(library) = fancy_regex::Regex::new(&pattern) else { return Ok(()) };
        // What may repeat nothing, or looks back at any length, is refused here.
        let Ok(regex) = Regex::new(&pattern, Dialect::Rust) else { return Ok(()) };
        for text in &texts {
            let mut found = Vec::new();
            let work = Work::of_text(text);
            regex.split(text, &work, &mut |piece| found.push(piece));
            prop_assert!(!work.is_spent());
            prop_assert_eq!(found, isolated(&library, text), "{} on {:?}", pattern, text);
        }
    }
}

#[test]
fn every_name_has_a_splitter() {
    for name in NAMES.iter().flat_map(|(names, _)| *names) {
        assert!(Splitter::by_name(name).is_some(), "{name}");
    }
    assert!(Splitter::by_name("unheard-of").is_none());
}

#[test]
fn patterns_are_bounded() {
    for (pattern, problem) in [
        ("a".repeat(20_000), "longer than 16384 bytes"),
        ("(?:(?:a{1000}b){1000}){1000}".to_owned(), "larger than any real one"),
        ("(?:(?:)|(?:)){1000000000}".to_owned(), "larger than any real one"),
        (r"(a)\1".to_owned(), "a reference"),
        ("(?:a*)*".to_owned(), "repeats what may be nothing"),
        ("(?<=a+)b".to_owned(), "any length"),
        ("(a".to_owned(), "no regular expression"),
    ] {
        let error = Splitter::from_pattern(&pattern).unwrap_err().to_string();
        assert!(error.contains(problem), "{error}");
    }
}

#[test]
fn what_oniguruma_reads_in_another_way_is_refused() {
    for (pattern, what) in [
        (r"\p{N}{1,3}+", "}+"),
        (r"a{2}+", "}+"),
        (r"(?m:.)", "(?m"),
        (r"x\w+", r"\w"),
        (r"\\\b", r"\b"),
    ] {
        let error = Splitter::from_oniguruma(pattern).unwrap_err().to_string();
        let expected = format!("`{what}`, which is not implemented");
        assert!(error.ends_with(&expected), "{error}");
    }
    for pattern in [r"\p{N}+", r"\\w+", r"\p{L}++|a{1,2}", "{+"] {
        assert!(Splitter::from_oniguruma(pattern).is_ok(), "{pattern}");
    }
}

#[test]
fn ends_of_lines_end_in_oniguruma() {
    let text = "a  \n b ";
    let splitter = Splitter::from_oniguruma(r"[ ]+$").unwrap();
    assert_eq!(pieces(&splitter, text), ["a", "  ", "\n b", " "]);
    let splitter = Splitter::from_pattern(r"[ ]+$").unwrap();
    assert_eq!(pieces(&splitter, text), ["a  \n b", " "]);
}

#[test]
fn digits_stand_apart() {
    let text = "ab12٣ ½x9";
    assert_eq!(pieces(&Splitter::digits(true), text), ["ab", "1", "2", "٣", " ", "½", "x", "9"]);
    assert_eq!(pieces(&Splitter::digits(false), text), ["ab", "12٣", " ", "½", "x", "9"]);
}
