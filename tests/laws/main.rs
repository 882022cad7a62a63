//! The laws, a module each, in one program: the crate is linked once, and a vocabulary is loaded once.
//!
//! `cargo test p2_formats` runs one module. What needs a process of its own has a file beside this folder.

#[path = "../common/mod.rs"]
mod common;

mod edges;
mod extend;
mod formats;
mod formats_control;
mod formats_round_trip;
mod formats_streams;
mod golden;
mod json_texts;
mod leniency;
mod marks;
mod media;
mod nested;
mod p1_control;
mod p2_files;
mod p2_formats;
mod p2_round_trip;
mod p3_files;
mod p3_reference;
mod p4_bytes;
mod p4_lossless;
mod p5_total;
mod p6_chunks;
mod p7_provenance;
mod p8_immutable;
mod pools;
mod stops;
mod sweep;
mod template_origins;
mod template_shape;
mod threads;
mod tool_types;
mod unsupported;
mod witness;
