//! The number that a run's values come from. The same number gives the same values.
//!
//! `CHATCODEC_SEEDS` is `new` or a number. Without it the number is fixed, so that what decides whether a change
//! lands is the same each time; a long run has a new one. A failure prints the command that repeats it.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;
use std::thread;

use super::is_long;

static SEED: LazyLock<u64> = LazyLock::new(|| match std::env::var("CHATCODEC_SEEDS").as_deref() {
    Ok("new") => new(),
    Ok("") | Err(_) => {
        if is_long() {
            new()
        } else {
            1
        }
    }
    Ok(number) => number
        .parse()
        .unwrap_or_else(|_| panic!("`CHATCODEC_SEEDS` is `{number}`; expected `new` or a number")),
});

/// Short enough to be typed.
fn new() -> u64 {
    RandomState::new().hash_one(()) >> 32
}

/// The seed of one part of a law, a format or a vocabulary: it does not depend on the parts before it.
pub fn of(part: &str) -> u64 {
    // FNV-1a, the same on every machine.
    let mix = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    part.bytes().fold(0xcbf2_9ce4_8422_2325 ^ *SEED, mix)
}

static ONLY: LazyLock<Option<String>> = LazyLock::new(|| std::env::var("CHATCODEC_ONLY").ok());

/// Whether a part of a law is to run: `CHATCODEC_ONLY` names one.
pub fn is_asked(part: &str) -> bool {
    ONLY.as_ref().is_none_or(|only| only == part)
}

/// How many of several alike are tried: all in a long run, and where a part is asked for.
pub fn most(short: usize) -> usize {
    if is_long() || ONLY.is_some() { usize::MAX } else { short }
}

/// The same items, begun at another one for each `nth`, and for each seed.
pub fn rotated<T>(mut items: Vec<T>, nth: usize) -> impl Iterator<Item = T> {
    let begin = (nth + *SEED as usize) % items.len().max(1);
    items.rotate_left(begin);
    items.into_iter()
}
/// The command that runs this law with the same values, or one part of it.
pub fn repeat(part: Option<&str>) -> String {
    let long = if is_long() { "CHATCODEC_LONG=1 " } else { "" };
    let only = part.map(|part| format!("CHATCODEC_ONLY='{part}' ")).unwrap_or_default();
    // A test has a thread with its name, where there is more than one.
    let thread = thread::current();
    let law = thread.name().filter(|name| *name != "main").unwrap_or("<the law's name>");
    format!(
        "repeat: {long}CHATCODEC_SEEDS={} {only}cargo test --features foreign --test laws -- --exact {law}",
        *SEED
    )
}
