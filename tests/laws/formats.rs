//! Every built-in format reads, and says what it is.

use chatcodec::{Format, Guarantee};

#[test]
fn every_built_in_format_reads() {
    let names: Vec<&str> = Format::names().collect();
    assert!(names.len() >= 15, "{names:?}");
    for name in names {
        let format = Format::built_in(name).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(format.name(), name);
        assert!(!format.source().is_empty() && !format.vocabulary().is_empty(), "{name}");
        assert!(matches!(format.guarantee(), Guarantee::Ids | Guarantee::Text));
    }
}
