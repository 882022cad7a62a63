//! The naive reference of the text encoder: SentencePiece's BPE, written straight from its
//! definition, quadratic and slow. It reads the model file by itself.

use std::collections::HashMap;

use chatcodec::TokenId;

/// What `SentencePiece.Type` of `sentencepiece_model.proto` calls a piece.
const NORMAL: u64 = 1;
const USER_DEFINED: u64 = 4;
const UNUSED: u64 = 5;
const BYTE: u64 = 6;

pub struct Naive {
    /// Pieces that merges make, with id and score; whether the piece is unused.
    pieces: HashMap<String, (TokenId, f32, bool)>,
    /// Pieces that are matched before any merge, longest first.
    whole: Vec<(String, TokenId)>,
    /// The id that each byte falls back to.
    pub bytes: Vec<TokenId>,
    dummy_prefix: bool,
    remove_extra_whitespaces: bool,
}

/// A symbol while merging: its text, and whether it may merge.
type Symbol = (String, bool);

/// Per unused piece what it was last made of.
type MadeOf = HashMap<String, (String, String)>;

impl Naive {
    /// Reads a model; only pieces for which `is_text` holds are there for text.
    pub fn read(file: &[u8], is_text: impl Fn(TokenId) -> bool) -> Self {
        let mut naive = Self {
            pieces: HashMap::new(),
            whole: Vec::new(),
            bytes: vec![-1; 256],
            dummy_prefix: true,
            remove_extra_whitespaces: true,
        };
        let mut next_id = 0;
        for (field, value) in fields(file) {
            match (field, value) {
                (1, Value::Bytes(piece)) => {
                    let (mut text, mut score, mut kind) = ("", 0.0, NORMAL);
                    for field in fields(piece) {
                        match field {
                            (1, Value::Bytes(bytes)) => {
                                text = std::str::from_utf8(bytes).expect("pieces are UTF-8");
                            }
                            (2, Value::Fixed(bits)) => score = f32::from_bits(bits),
                            (3, Value::Varint(number)) => kind = number,
                            _ => {}
                        }
                    }
                    naive.add(next_id, text, score, kind, is_text(next_id));
                    next_id += 1;
                }
                (3, Value::Bytes(normalizer)) => {
                    for field in fields(normalizer) {
                        match field {
                            (3, Value::Varint(flag)) => naive.dummy_prefix = flag != 0,
                            (4, Value::Varint(flag)) => naive.remove_extra_whitespaces = flag != 0,
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
        }
        naive.whole.sort_by_key(|(text, _)| std::cmp::Reverse(text.chars().count()));
        naive
    }

    fn add(&mut self, id: TokenId, text: &str, score: f32, kind: u64, is_text: bool) {
        match kind {
            BYTE => {
                let byte = usize::from_str_radix(&text[3..5], 16).expect("byte pieces spell one");
                self.bytes[byte] = id;
            }
            USER_DEFINED if is_text => self.whole.push((text.to_owned(), id)),
            // NUL as a piece is never produced: the newest sentencepiece gives the byte's id.
            NORMAL | UNUSED if text == "\0" => {}
            NORMAL if is_text => drop(self.pieces.insert(text.to_owned(), (id, score, false))),
            UNUSED => drop(self.pieces.insert(text.to_owned(), (id, score, true))),
            _ => {}
        }
    }

    /// A whole text to ids.
    pub fn encode(&self, text: &str) -> Vec<TokenId> {
        if !self.remove_extra_whitespaces {
            return self.encode_run(text, true);
        }
        let words: Vec<&str> = text.split(' ').filter(|word| !word.is_empty()).collect();
        self.encode_run(words.join("\u{2581}").trim_end_matches('\u{2581}'), true)
    }

    /// One run of text to ids; `first` where a dummy prefix may stand before it.
    pub fn encode_run(&self, text: &str, first: bool) -> Vec<TokenId> {
        if text.is_empty() {
            return Vec::new();
        }
        let mut text = text.replace(' ', "\u{2581}");
        if self.dummy_prefix && first {
            text.insert(0, '\u{2581}');
        }
        let mut symbols = self.split(&text);
        let mut made_of = MadeOf::new();
        for left in 0..symbols.len() {
            self.note_unused(&symbols, left, &mut made_of);
        }
        while let Some(at) = self.best_pair(&symbols) {
            let (right, _) = symbols.remove(at + 1);
            symbols[at].0.push_str(&right);
            self.note_unused(&symbols, at.wrapping_sub(1), &mut made_of);
            self.note_unused(&symbols, at, &mut made_of);
        }
        let mut ids = Vec::new();
        for (symbol, merges) in symbols {
            match self.whole.iter().find(|(text, _)| !merges && *text == symbol) {
                Some((_, id)) => ids.push(*id),
                None => self.emit(&symbol, &made_of, &mut ids),
            }
        }
        ids
    }

    /// Characters, and pieces that are matched as a whole: these do not merge.
    fn split(&self, text: &str) -> Vec<Symbol> {
        let mut symbols = Vec::new();
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            let whole = self.whole.iter().find(|(piece, _)| rest.starts_with(piece.as_str()));
            let taken = whole.map_or(c.len_utf8(), |(piece, _)| piece.len());
            symbols.push((rest[..taken].to_owned(), whole.is_none()));
            rest = &rest[taken..];
        }
        symbols
    }

    /// What two neighbours would make: the piece's score, and whether it is unused.
    fn union(&self, symbols: &[Symbol], left: usize) -> Option<(String, f32, bool)> {
        let [(left, true), (right, true)] = symbols.get(left..left.checked_add(2)?)? else {
            return None;
        };
        let union = format!("{left}{right}");
        let &(_, score, unused) = self.pieces.get(&union)?;
        Some((union, score, unused))
    }

    /// The two neighbours whose union is the piece of the highest score; the leftmost of equal ones.
    fn best_pair(&self, symbols: &[Symbol]) -> Option<usize> {
        let mut best: Option<(usize, f32)> = None;
        for at in 0..symbols.len() {
            if let Some((_, score, _)) = self.union(symbols, at)
                && best.is_none_or(|(_, known)| score > known)
            {
                best = Some((at, score));
            }
        }
        best.map(|(at, _)| at)
    }

    /// An unused piece is taken apart into the two that were last seen side by side.
    fn note_unused(&self, symbols: &[Symbol], left: usize, made_of: &mut MadeOf) {
        if let Some((union, _, true)) = self.union(symbols, left) {
            made_of.insert(union, (symbols[left].0.clone(), symbols[left + 1].0.clone()));
        }
    }

    /// The id of a symbol; of its parts if it is unused, of its bytes if it is no piece.
    fn emit(&self, symbol: &str, made_of: &MadeOf, ids: &mut Vec<TokenId>) {
        match (self.pieces.get(symbol), made_of.get(symbol)) {
            (Some(&(id, _, false)), _) => ids.push(id),
            (Some(_), Some((left, right))) => {
                self.emit(left, made_of, ids);
                self.emit(right, made_of, ids);
            }
            _ => ids.extend(symbol.bytes().map(|byte| self.bytes[usize::from(byte)])),
        }
    }
}

enum Value<'a> {
    Varint(u64),
    Fixed(u32),
    Bytes(&'a [u8]),
}

/// The fields of a protobuf message that is known to be whole.
fn fields(mut bytes: &[u8]) -> Vec<(u64, Value<'_>)> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let mut value = 0;
        for shift in (0..).step_by(7) {
            let byte = bytes[0];
            *bytes = &bytes[1..];
            value |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                break;
            }
        }
        value
    }
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let value = match tag & 7 {
            0 => Value::Varint(varint(&mut bytes)),
            2 => {
                let length = usize::try_from(varint(&mut bytes)).expect("a length");
                let (value, rest) = bytes.split_at(length);
                bytes = rest;
                Value::Bytes(value)
            }
            5 => {
                let (value, rest) = bytes.split_first_chunk().expect("four bytes");
                bytes = rest;
                Value::Fixed(u32::from_le_bytes(*value))
            }
            kind => panic!("wire type {kind}"),
        };
        fields.push((tag >> 3, value));
    }
    fields
}
