//! An expression has one value, whichever way it is written out: printed, kept in a variable, in a block, by a macro.

#![no_main]

use chatcodec::{RenderedTemplate, Template};
use libfuzzer_sys::fuzz_target;

#[allow(dead_code)]
mod templates;

const ATOMS: [&str; 24] = [
    "m.content", "m['content']", "m.role", "'a'", "''", "'<|x|>'", "m.more", "m.more|trim", "1", "none",
    "m.content[1:]", "m.content[::-1]", "m.content|upper", "m.content.split('b')[0]", "m.more|tojson",
    "m.content|safe", "('<' ~ m.role)", "x", "m.list|join(',')", "m.list", "m.missing", "m.content.strip()",
    "(m.content if m.more else m.role)", "loop.index",
];
const SIGNS: [&str; 4] = [" + ", " ~ ", " + ", " if m.more else "];

/// What a template writes in a loop over the messages.
fn written(body: &str) -> Option<(String, Vec<(String, Option<String>)>)> {
    let source = format!("{{% for m in messages[:2] %}}{body}{{% endfor %}}");
    let template = Template::parse(&source).unwrap_or_else(|error| panic!("{error}"));
    let rendered: RenderedTemplate = templates::render(&template)?;
    templates::check_runs(&rendered);
    templates::check_marks(&rendered);
    let text = rendered.text();
    let runs = rendered.runs().into_iter().map(|run| (text[run.text].to_owned(), run.path));
    // Which message template text belongs to depends on the block that writes it.
    let mut joined: Vec<(String, Option<String>)> = Vec::new();
    for (text, path) in runs {
        match joined.last_mut() {
            Some((last, same)) if *same == path => last.push_str(&text),
            _ => joined.push((text, path)),
        }
    }
    Some((text.to_owned(), joined))
}

fuzz_target!(|bytes: &[u8]| {
    let mut expression = String::new();
    for pair in bytes.chunks(2).take(8) {
        if !expression.is_empty() {
            expression.push_str(SIGNS[usize::from(pair[0] >> 5) % SIGNS.len()]);
        }
        expression.push_str(ATOMS[usize::from(pair[0]) % ATOMS.len()]);
        if let Some(&more) = pair.get(1).filter(|more| **more > 128) {
            expression = format!("({expression})[{}:]", more % 3);
        }
    }
    if expression.is_empty() {
        return;
    }
    let printed = written(&format!("{{{{ {expression} }}}}"));
    let ways = [
        format!("{{% set r = {expression} %}}{{{{ r }}}}"),
        format!("{{% set r %}}{{{{ {expression} }}}}{{% endset %}}{{{{ r }}}}"),
        format!("{{% macro f(m, loop) %}}{{{{ {expression} }}}}{{% endmacro %}}{{{{ f(m, loop) }}}}"),
        format!("{{% filter string %}}{{{{ {expression} }}}}{{% endfilter %}}"),
        format!("{{{{ [{expression}][0] }}}}"),
    ];
    for way in ways {
        assert_eq!(written(&way), printed, "{way}");
    }
});
