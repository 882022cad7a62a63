//! What a codec is, in lines for people.

use chatcodec::TokenId;

use super::Codec;
use crate::reader;

impl Codec {
    /// Who writes conversations, who reads completions, the vocabulary; and what of the model's folder is not used.
    pub(super) fn described(&self) -> String {
        let (format, vocab) = (self.inner.format(), self.inner.vocab());
        let by_text = self.inner.text_parts();
        let guarantee = match format.guarantee() {
            chatcodec::Guarantee::Ids if !self.inner.text_boundaries().is_empty() => {
                "text is never a control id, but between some turns stands text alone, which a caller's text can spell"
                    .to_owned()
            }
            chatcodec::Guarantee::Ids if by_text.is_empty() => {
                "text is never control: turns and calls are told apart by ids".to_owned()
            }
            chatcodec::Guarantee::Ids => {
                let parts = by_text.join(" and ");
                format!(
                    "text is never control: turns are told apart by ids, and text may delimit {parts}: see `Encoding.collisions`"
                )
            }
            chatcodec::Guarantee::Text => {
                "text is never a control id, but the markers of turns are ordinary text: see `Encoding.collisions`"
                    .to_owned()
            }
        };
        let lacks = self.template.as_ref().map(|_| self.inner.template_lacks());
        let read = match self.inner.response() {
            Some(response) => {
                let fields: Vec<&str> = response.fields().collect();
                let fields = chatcodec::place(&fields.join(", ")).into_owned();
                format!("completions are read by the response template: {fields}")
            }
            None => reader::described_reader(
                &self.reader,
                format.name(),
                self.template.is_some(),
                &self.inner,
            ),
        };
        let mut lines = vec![
            reader::described_writer(&self.reader, format, lacks),
            read,
            format!(
                "{guarantee}; a vocabulary of {} ids, {} spellings of control tokens",
                vocab.size(),
                vocab.control().len()
            ),
        ];
        if let Some(problem) = &self.unused_response {
            lines.push(format!("the model's response template is not used: {problem}"));
        }
        let stops = self.inner.stop_ids();
        let is_unknown =
            |id: &&i64| TokenId::try_from(**id).map_or(true, |id| !stops.contains(&id));
        let unknown: Vec<String> =
            self.folder_stops.iter().filter(is_unknown).map(i64::to_string).collect();
        if !unknown.is_empty() {
            lines.push(format!(
                "`generation_config.json` stops at {}, which no control token has: left out of the stop ids",
                unknown.join(", ")
            ));
        }
        lines.extend(self.inner.template_needs());
        lines.join("\n")
    }
}
