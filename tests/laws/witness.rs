//! Refused format files: what shows that they would be read wrongly.
//!
//! A file that loads has no witness; a witness of a refused file shows what really happens, and nothing that is
//! refused breaks the search.

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::common::check;
use crate::common::files::{Tape, file, spellings};
use crate::common::table::made_for;
use chatcodec::{Format, Vocab, Witness};
use proptest::prelude::*;

/// How many choices a file takes at most.
const LENGTH: usize = 300;

#[test]
#[allow(clippy::print_stderr, reason = "a long run says what it did")]
fn a_refused_file_shows_a_conversation() {
    let vocabs: Vec<Vocab> = made_for(&spellings()).into_iter().map(|(_, vocab)| vocab).collect();
    let asked = std::env::var("CHATCODEC_FILES").ok().and_then(|count| count.parse().ok());
    let told: RefCell<BTreeMap<String, [u32; 3]>> = RefCell::default();
    check("files", asked.unwrap_or(40), Tape::any(LENGTH), |mut tape| {
        let text = file(&mut tape);
        let vocab = &vocabs[tape.below(vocabs.len())];
        match Format::parse("random", &text) {
            Ok(_) if tape.may(90) => {}
            Ok(_) => {
                let found = Witness::of("random", &text, None, vocab).ok().flatten();
                prop_assert_eq!(found, None, "{}", text);
            }
            Err(error) => {
                let kind = match Witness::of("random", &text, None, vocab) {
                    Ok(Some(found)) => {
                        prop_assert!(found.read != found.expected || !found.notices.is_empty());
                        0
                    }
                    Ok(None) => 1,
                    Err(_) => 2,
                };
                let problem = error.to_string();
                let problem = problem.split_once("`: ").map_or(&*problem, |(_, rest)| rest);
                let words: Vec<&str> =
                    problem.split(' ').filter(|word| !word.contains(['`', '"'])).take(9).collect();
                told.borrow_mut().entry(words.join(" ")).or_default()[kind] += 1;
            }
        }
        Ok(())
    });
    let [shown, hidden] = [0, 1].map(|kind| told.borrow().values().map(|of| of[kind]).sum::<u32>());
    // Two thirds of the refusals have one: of a dozen, some have.
    assert!(shown > 0 || hidden < 12, "{hidden} refusals show nothing");
    for (problem, [shown, hidden, broken]) in told.borrow().iter() {
        eprintln!("{shown:5} {hidden:5} {broken:5}  {problem}");
    }
}
