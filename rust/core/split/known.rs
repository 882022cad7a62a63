//! The patterns that real vocabularies have, and the names that GGUF files give them.

/// GPT-2, and with it most vocabularies before 2023.
pub(super) const GPT2: &str =
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

/// Llama 3; cl100k in its first spelling; GLM-4.
pub(super) const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// Qwen 2 and later: Llama 3's with digits one by one.
pub(super) const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// `o200k_base`: GPT-4o, gpt-oss, Llama 4.
pub(super) const O200K: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// Mistral's tekken.
pub(super) const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";

const NEWLINE: &str = r"[\r\n]";
const DIGIT: &str = r"\p{N}";
const THREE_DIGITS: &str = r"\p{N}{1,3}";

const DEEPSEEK_LLM_WORD: &str = r"\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+";
const DEEPSEEK_LLM_PUNCTUATION: &str = r"\s?[!-/:-~！-／：-～‘-‟　-。]+";
const SPACE_AT_END: &str = r"\s+$";
const DEEPSEEK_CJK: &str = "[一-龥ࠀ-一가-퟿]+";
const DEEPSEEK_CODER_WORD: &str = r"\s?\p{L}+";
const DEEPSEEK_CODER_PUNCTUATION: &str = r"\s?\p{P}+";

const DEEPSEEK_V3_CJK: &str = "[一-龥぀-ゟ゠-ヿ]+";
const DEEPSEEK_V3: &str = r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##;

/// The patterns that a GGUF file means by its `tokenizer.ggml.pre`, each applied to the pieces of the
/// one before it.
pub(super) fn patterns_of(name: &str) -> Option<&'static [&'static str]> {
    Some(match name {
        "gpt-2" | "phi-2" | "mpt" | "olmo" | "jais" | "roberta-bpe" => &[GPT2],
        "starcoder" | "refact" | "command-r" | "smollm" | "codeshell" | "exaone" => &[DIGIT, GPT2],
        "llama3" | "llama-v3" | "llama-bpe" | "falcon3" | "pixtral" | "dbrx" | "smaug-bpe"
        | "chatglm-bpe" | "glm4" => &[LLAMA3],
        "qwen2" | "deepseek-r1-qwen" | "megrez" | "stablelm2" | "hunyuan" | "grok-2" => &[QWEN2],
        "gpt-4o" | "o200k" | "llama4" => &[O200K],
        "tekken" => &[TEKKEN],
        "deepseek-llm" => &[
            NEWLINE,
            DEEPSEEK_LLM_WORD,
            DEEPSEEK_LLM_PUNCTUATION,
            SPACE_AT_END,
            DEEPSEEK_CJK,
            DIGIT,
        ],
        "deepseek-coder" => {
            &[NEWLINE, DEEPSEEK_CODER_WORD, DEEPSEEK_CODER_PUNCTUATION, DEEPSEEK_CJK, DIGIT]
        }
        "deepseek-v3" | "hunyuan-dense" => &[THREE_DIGITS, DEEPSEEK_V3_CJK, DEEPSEEK_V3],
        _ => return None,
    })
}
