//! Data for templates, each text of a character that stands for its path.

use chatcodec::{RenderOptions, RenderedTemplate, Template};
use serde_json::{Value, json};

/// Characters of no script, one a path.
const FIRST: u32 = 0xE000;

const PATHS: [&str; 8] = [
    "messages[0].content",
    "messages[0].more",
    "messages[1].content",
    "messages[1].list[0]",
    "messages[1].list[1]",
    "messages[2].content[0].text",
    "x",
    "messages[1].more",
];

pub fn is_mark(c: char) -> bool {
    ('\u{E000}'..='\u{F8FF}').contains(&c)
}

fn mark(path: &str) -> String {
    let at = PATHS.iter().position(|known| *known == path).expect("a path of these");
    let c = char::from_u32(FIRST + at as u32).expect("a character");
    String::from_iter([c; 3])
}

fn data() -> (Value, Value) {
    let messages = json!([
        { "role": "user", "content": mark("messages[0].content"), "more": mark("messages[0].more") },
        {
            "role": "assistant",
            "content": mark("messages[1].content"),
            "more": mark("messages[1].more"),
            "list": [mark("messages[1].list[0]"), mark("messages[1].list[1]")],
            "none": null,
        },
        { "role": "user", "content": [{ "type": "text", "text": mark("messages[2].content[0].text") }] },
    ]);
    (messages, json!(mark("x")))
}

/// What a template writes; none if it is refused.
pub fn render(template: &Template) -> Option<RenderedTemplate> {
    let (messages, x) = data();
    let own = [("bos_token".to_owned(), "<s>".to_owned())];
    let now = |_: &str| Some("now".to_owned());
    let options = RenderOptions { add_generation_prompt: true, own: &own, now: &now };
    template.render(&messages, &[("x", &x)], &options).ok()
}

/// Runs cover the text.
pub fn check_runs(rendered: &RenderedTemplate) {
    let mut at = 0;
    for run in rendered.runs() {
        assert_eq!(run.text.start, at);
        assert!(rendered.text().get(run.text.clone()).is_some_and(|text| !text.is_empty()));
        at = run.text.end;
    }
    assert_eq!(at, rendered.text().len());
}

/// Each character of a caller's text is in a run of its path.
pub fn check_marks(rendered: &RenderedTemplate) {
    for run in rendered.runs() {
        for c in rendered.text()[run.text].chars().filter(|c| is_mark(*c)) {
            let path = PATHS[(u32::from(c) - FIRST) as usize];
            assert_eq!(run.path.as_deref(), Some(path));
        }
    }
}
