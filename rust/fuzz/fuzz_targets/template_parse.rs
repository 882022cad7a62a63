//! Any text is a template or an error with its place. What a template writes is covered by runs, each of whom it says:
//! every text of the caller's is of one character of its own, which is looked for in the output.

#![no_main]

use chatcodec::{Error, Template};
use libfuzzer_sys::fuzz_target;

#[allow(dead_code)]
mod templates;

fuzz_target!(|source: &str| {
    let template = match Template::parse(source) {
        Ok(template) => template,
        Err(Error::Template { problem, .. }) => {
            assert!(!problem.is_empty());
            return;
        }
        Err(other) => panic!("{other}"),
    };
    let Some(rendered) = templates::render(&template) else {
        assert!(templates::render(&template).is_none());
        return;
    };
    let again = templates::render(&template).expect("it was rendered before");
    assert_eq!(again.text(), rendered.text());
    assert_eq!(again.runs(), rendered.runs());
    templates::check_runs(&rendered);
    // What may write a character by its number.
    if source.contains(['\\', '%']) || source.chars().any(templates::is_mark) {
        return;
    }
    templates::check_marks(&rendered);
});
