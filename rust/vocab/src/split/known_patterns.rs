//! The patterns of real vocabularies, and their names in GGUF files.

use super::scan::{Contractions, Digits, Known};

/// GPT-2's pattern, shared by most vocabularies before 2023.
const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

/// Llama 3; cl100k in its first spelling; GLM-4.
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// `cl100k_base` as tiktoken has it now: white space at the end stays together.
pub(super) const CL100K: &str = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s";

/// Qwen 2 and later: Llama 3's, digit by digit.
const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// `o200k_base`: GPT-4o, gpt-oss, Llama 4.
const O200K: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// Mistral's tekken: o200k's without contractions, digit by digit.
const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";

pub(super) const DEEPSEEK_V3: &str = r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##;

const LLAMA3_SCAN: Known = Known::Cl100k {
    contractions: Contractions::Folded,
    digits: Digits::Three,
    whole_end: false,
    marks: false,
};
const QWEN2_SCAN: Known = Known::Cl100k {
    contractions: Contractions::Folded,
    digits: Digits::One,
    whole_end: false,
    marks: false,
};
const CL100K_SCAN: Known = Known::Cl100k {
    contractions: Contractions::Folded,
    digits: Digits::Three,
    whole_end: true,
    marks: false,
};

/// Oniguruma's reading of [`CL100K`]: `{1,3}+` is one to three digits, once or more.
pub(super) const CL100K_ONIGURUMA: Known = Known::Cl100k {
    contractions: Contractions::Folded,
    digits: Digits::Many,
    whole_end: true,
    marks: false,
};

/// Every pattern with a hand-written scanner, in every spelling that files use.
pub(super) const KNOWN: &[(&str, Known)] = &[
    (GPT2, Known::Gpt2),
    // tiktoken's spellings of the same pattern.
    (r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+", Known::Gpt2),
    (
        r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s",
        Known::Gpt2,
    ),
    (LLAMA3, LLAMA3_SCAN),
    (
        r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        Known::Cl100k {
            contractions: Contractions::Ascii,
            digits: Digits::Three,
            whole_end: false,
            marks: false,
        },
    ),
    // tiktoken's spellings of cl100k: the second is equal to the first, the third is not.
    (
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        LLAMA3_SCAN,
    ),
    (
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
        LLAMA3_SCAN,
    ),
    (CL100K, CL100K_SCAN),
    (QWEN2, QWEN2_SCAN),
    (
        r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        Known::Cl100k {
            contractions: Contractions::Ascii,
            digits: Digits::One,
            whole_end: false,
            marks: false,
        },
    ),
    (
        QWEN35,
        Known::Cl100k {
            contractions: Contractions::Folded,
            digits: Digits::One,
            whole_end: false,
            marks: true,
        },
    ),
    (O200K, Known::O200k { contractions: Contractions::Folded, digits: Digits::Three, han: false }),
    (TEKKEN, Known::O200k { contractions: Contractions::No, digits: Digits::One, han: false }),
    (
        KIMI_K2,
        Known::O200k { contractions: Contractions::Folded, digits: Digits::Three, han: true },
    ),
    (DEEPSEEK_V3, Known::DeepSeekV3),
    // The same with literal newlines.
    (
        "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
        Known::DeepSeekV3,
    ),
];

/// llama.cpp's splitters for vocabularies that do not state theirs.
const LLAMA_CPP_DEFAULT: &[&str] = &[r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", r"[0-9][0-9][0-9]"];

const FALCON: &[&str] = &[r"[\p{P}\$\+<=>\^~\|`]+", GPT2, r"[0-9][0-9][0-9]"];

const DIGITS_GPT2: &[&str] = &[r"\p{N}", GPT2];

/// Letters that have case, in the Unicode of their time; then signs; then Chinese and its neighbours.
const DEEPSEEK_LLM: &[&str] = &[
    r"[\r\n]",
    concat!(
        r"\s?[",
        r"\x{41}-\x{5A}\x{61}-\x{7A}\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}",
        r"\x{1BC}-\x{1BF}\x{1C4}-\x{293}\x{295}-\x{2AF}\x{370}-\x{373}\x{376}\x{377}",
        r"\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5}",
        r"\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}",
        r"\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}",
        r"\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}",
        r"\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}",
        r"\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}",
        r"\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}",
        r"\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}",
        r"\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}",
        r"\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}",
        r"\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}",
        r"\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}",
        r"\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}",
        r"\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}",
        r"\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}",
        r"]+"
    ),
    r"\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+",
    r"\s+$",
    r"[\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+",
    r"\p{N}",
];

const DEEPSEEK_CODER: &[&str] = &[
    r"[\r\n]",
    r"\s?\p{L}+",
    r"\s?\p{P}+",
    r"[\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+",
    r"\p{N}",
];

const DEEPSEEK_V3_ALL: &[&str] = &[UP_TO_THREE, DEEPSEEK_CHINESE[0], DEEPSEEK_V3];

pub(super) const UP_TO_THREE: &str = r"\p{N}{1,3}";

/// What DeepSeek-V3 splits off before its main pattern, in the spellings of files.
pub(super) const DEEPSEEK_CHINESE: [&str; 2] =
    [r"[\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+", "[一-龥\u{3040}-ゟ゠-ヿ]+"];

/// Qwen 3.5: marks belong to letters.
const QWEN35: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// Kimi K2: o200k's, with Chinese split off and without the slash.
const KIMI_K2: &str = concat!(
    r"[\p{Han}]+",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);

/// BLOOM: words, with the signs that end a sentence split off.
const BLOOM: &str = r" ?[^(\s|.,!?…。，、।۔،)]+";

/// Ling and `LLaDA`: `cl100k_base`, digit by digit.
const BAILING: &str = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+";

/// Seed-Coder: Qwen 2's, with newlines split from signs.
const SEED_CODER: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+";

/// Youtu: splits off Korean, signs, Bopomofo, Chinese and Japanese; then o200k's, digit by digit.
const YOUTU: &[&str] = &[
    "[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥\u{3040}-ゟ゠-ヿ]+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
];

/// Numbers by threes, counted from the right: no linear pattern expresses this.
pub(super) const NUMBERS_BY_THREES: &str = r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))";

/// Trinity: numbers by threes, then scripts without spaces, then `DeepSeek`-V3's.
const AFMOE: &[&str] = &[
    NUMBERS_BY_THREES,
    concat!(
        r"[\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{F900}-\x{FAFF}\x{3040}-\x{309F}\x{30A0}-\x{30FF}",
        r"\x{FF65}-\x{FF9F}\x{2F00}-\x{2FDF}\x{E40}-\x{E7F}\x{E80}-\x{EFF}\x{1780}-\x{17FF}",
        r"\x{1000}-\x{109F}\x{AA60}-\x{AA7F}\x{A9E0}-\x{A9FF}\x{AC00}-\x{D7AF}\x{1100}-\x{11FF}]+",
    ),
    DEEPSEEK_V3,
];

/// Tiny Aya and Cohere's mixtures: o200k's, digits by threes from the right first.
const TINY_AYA: &[&str] = &[r"\d{1,3}(?=(?:\d{3})*\b)", O200K];

const SUPERBPE: &[&str] = &[r"\p{N}+", r"(?=(\d{3})+(?!\d))"];

/// K-EXAONE: words together with the spaces between them.
const EXAONE_MOE: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+";

/// Jais 2: Llama 3's, white space in powers of two.
const JAIS2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1}";

/// K2 Horizon: Llama 3's, marks and joiners within words.
const K2_HORIZON: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}\x{200C}\x{200D}]+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

const SPARK: &[&str] = &[
    r"\p{N}{1,3}",
    r"[\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+",
    r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+"##,
    r"\p{N}",
];

const MINICPM5: &[&str] = &[
    r"\p{N}{1,3}",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
];

const CHAMELEON: &[&str] = &[
    "<sentinel:[0-9]+>",
    "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z",
    r"([\t\n]|    |  )",
    r"\p{N}",
    r"[\p{P}!-/:-@\[-`{-~]",
    GPT2,
];

/// The splitter that a GGUF file's `tokenizer.ggml.pre` names: patterns, each applied to the pieces
/// of the previous one.
pub(super) const NAMES: &[(&[&str], &[&str])] = &[
    (&["default"], LLAMA_CPP_DEFAULT),
    (&["falcon"], FALCON),
    (
        &[
            "gpt-2",
            "phi-2",
            "mpt",
            "olmo",
            "jais",
            "roberta-bpe",
            "exaone4",
            "trillion",
            "jina-es",
            "jina-de",
            "jina-v1-en",
            "jina-v2-es",
            "jina-v2-de",
            "jina-v2-code",
            "gigachat",
            "a.x-4.0",
            "mellum",
            "modern-bert",
            "granite-docling",
        ],
        &[GPT2],
    ),
    (
        &[
            "starcoder",
            "refact",
            "command-r",
            "smollm",
            "codeshell",
            "exaone",
            "minerva-7b",
            "mellum2",
        ],
        DIGITS_GPT2,
    ),
    (
        &[
            "llama3",
            "llama-v3",
            "llama-bpe",
            "falcon3",
            "falcon-h1",
            "pixtral",
            "midm-2.0",
            "lfm2",
            "jina-v5-nano",
            "dbrx",
            "smaug-bpe",
            "chatglm-bpe",
            "glm4",
            "glm5",
        ],
        &[LLAMA3],
    ),
    (&["cl100k"], &[CL100K]),
    (
        &[
            "qwen2",
            "deepseek-r1-qwen",
            "megrez",
            "stablelm2",
            "hunyuan",
            "grok-2",
            "kormo",
            "f2llmv2",
            "solar-open",
        ],
        &[QWEN2],
    ),
    (&["qwen35"], &[QWEN35]),
    (
        &[
            "gpt-4o",
            "o200k",
            "llama4",
            "minimax-m2",
            "kanana2",
            "talkie",
            "granite-embed-multi-97m",
        ],
        &[O200K],
    ),
    (&["tekken"], &[TEKKEN]),
    (&["deepseek-llm"], DEEPSEEK_LLM),
    (&["deepseek-coder"], DEEPSEEK_CODER),
    (&["deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"], DEEPSEEK_V3_ALL),
    (&["youtu"], YOUTU),
    (&["kimi-k2"], &[KIMI_K2]),
    (&["bloom", "gpt3-finnish", "poro-chat"], &[BLOOM]),
    (&["viking"], &[BLOOM, r"\p{N}"]),
    (&["bailingmoe", "bailingmoe2", "llada-moe"], &[BAILING]),
    (&["seed-coder"], &[SEED_CODER]),
    (&["minicpm5"], MINICPM5),
    (&["chameleon"], CHAMELEON),
    (&["afmoe"], AFMOE),
    (&["tiny_aya", "cohere2moe"], TINY_AYA),
    (&["superbpe"], SUPERBPE),
    (&["exaone-moe"], &[EXAONE_MOE]),
    (&["jais-2"], &[JAIS2]),
    (&["k2-horizon"], &[K2_HORIZON]),
    (&["laguna"], &[r"\n+", QWEN2]),
    (&["spark2_5"], SPARK),
];
