//! Arrow's C data interface, read: the record batches of a table of any library.
//!
//! In: an object with `__arrow_c_stream__` or `__arrow_c_array__`. Out: an iterator of record batches that share
//! the table's buffers. Polars exports columns of type null with a buffer, which Arrow's specification does not
//! have and arrow-rs refuses; the reader leaves this buffer out.
//!
//! With `unsafe`, because the interface is C structs with function pointers. An array or a stream is moved out of
//! its capsule once, which marks the capsule's struct as released, and is released when it is dropped.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchIterator, RecordBatchReader, StructArray};
use arrow_data::ffi::FFI_ArrowArray;
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{ArrowError, DataType, Schema, SchemaRef};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};

use crate::arrow::ArrowArray;
use crate::errors::raise_data;

/// Most levels of a type, as Arrow's own library has it.
const MAX_LEVELS: usize = 64;

/// `struct ArrowArrayStream` of the C stream interface.
#[repr(C)]
struct ArrowArrayStream {
    get_schema: Option<unsafe extern "C" fn(*mut ArrowArrayStream, *mut FFI_ArrowSchema) -> c_int>,
    get_next: Option<unsafe extern "C" fn(*mut ArrowArrayStream, *mut FFI_ArrowArray) -> c_int>,
    get_last_error: Option<unsafe extern "C" fn(*mut ArrowArrayStream) -> *const c_char>,
    release: Option<unsafe extern "C" fn(*mut ArrowArrayStream)>,
    private_data: *mut c_void,
}

impl Drop for ArrowArrayStream {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: not released yet, as the field says.
            unsafe { release(self) };
        }
    }
}

// SAFETY: the interface lets a stream move to another thread; one thread calls it at a time.
unsafe impl Send for ArrowArrayStream {}

impl ArrowArrayStream {
    /// The failure of a call that returned `code`.
    fn failure(&mut self, code: c_int) -> ArrowError {
        // SAFETY: the stream is not released; it owns the text until its next call.
        let text = self.get_last_error.map(|get| unsafe { get(self) }).filter(|t| !t.is_null());
        // SAFETY: the interface says that the text ends with NUL.
        let text = text.map(|text| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned());
        ArrowError::CDataInterface(text.unwrap_or_else(|| format!("error {code}")))
    }
}

/// The record batches of a stream.
struct StreamReader {
    stream: ArrowArrayStream,
    schema: SchemaRef,
}

impl StreamReader {
    fn new(mut stream: ArrowArrayStream) -> Result<Self, ArrowError> {
        let mut schema = FFI_ArrowSchema::empty();
        let Some(get_schema) = stream.get_schema.filter(|_| stream.release.is_some()) else {
            let problem = "the stream was read already".to_owned();
            return Err(ArrowError::CDataInterface(problem));
        };
        // SAFETY: the stream is not released, and `schema` is empty.
        let code = unsafe { get_schema(&raw mut stream, &raw mut schema) };
        if code != 0 {
            return Err(stream.failure(code));
        }
        check_levels(&schema)?;
        Ok(Self { stream, schema: Arc::new(Schema::try_from(&schema)?) })
    }
}

impl Iterator for StreamReader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut array = FFI_ArrowArray::empty();
        let get_next = self.stream.get_next?;
        // SAFETY: the stream is not released, and `array` is empty.
        let code = unsafe { get_next(&raw mut self.stream, &raw mut array) };
        if code != 0 {
            return Some(Err(self.stream.failure(code)));
        }
        let kind = DataType::Struct(self.schema.fields().clone());
        // SAFETY: the stream gives arrays of its schema.
        (!array.is_released()).then(|| unsafe { batch_of(array, kind, &self.schema) })
    }
}

impl RecordBatchReader for StreamReader {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

/// Checks how deep a type is, before functions that call themselves read it: a deeper one would overflow the stack.
fn check_levels(schema: &FFI_ArrowSchema) -> Result<(), ArrowError> {
    let mut left = vec![(schema, 0)];
    while let Some((schema, level)) = left.pop() {
        if level > MAX_LEVELS {
            let problem = format!("a type is nested more than {MAX_LEVELS} levels deep");
            return Err(ArrowError::CDataInterface(problem));
        }
        left.extend(schema.children().chain(schema.dictionary()).map(|inner| (inner, level + 1)));
    }
    Ok(())
}

/// A record batch of an array of structs.
///
/// # Safety
/// `array` has the type `kind`, that of the columns of `schema`.
unsafe fn batch_of(
    mut array: FFI_ArrowArray,
    kind: DataType,
    schema: &SchemaRef,
) -> Result<RecordBatch, ArrowError> {
    // SAFETY: as this function's.
    let data = unsafe {
        drop_null_buffers(&raw mut array, &kind);
        arrow_array::ffi::from_ffi_and_data_type(array, kind)
    }?;
    if data.null_count() > 0 {
        let problem = "the array of structs has null rows, expected record batches".to_owned();
        return Err(ArrowError::InvalidArgumentError(problem));
    }
    let batch = RecordBatch::from(StructArray::from(data));
    batch.with_schema(Arc::clone(schema))
}

/// Leaves out the buffers of all arrays of type null within an array.
///
/// # Safety
/// `array` is not released and has the type `kind`.
unsafe fn drop_null_buffers(array: *mut FFI_ArrowArray, kind: &DataType) {
    /// # Safety
    /// As the function around it.
    unsafe fn walk(array: *mut ArrowArray, kind: &DataType) {
        // SAFETY: the interface says that `children` has `n_children` arrays, those of the type's fields. An array
        // frees what it owns by `private_data`, whatever the number of its buffers says.
        unsafe {
            if array.is_null() {
                return;
            }
            let fields: Vec<&DataType> = match kind {
                DataType::Null => {
                    (*array).n_buffers = 0;
                    return;
                }
                DataType::Struct(fields) => fields.iter().map(|field| field.data_type()).collect(),
                DataType::List(field)
                | DataType::LargeList(field)
                | DataType::ListView(field)
                | DataType::LargeListView(field)
                | DataType::FixedSizeList(field, _)
                | DataType::Map(field, _) => vec![field.data_type()],
                DataType::RunEndEncoded(ends, values) => vec![ends.data_type(), values.data_type()],
                DataType::Dictionary(_, values) => return walk((*array).dictionary, values),
                _ => return,
            };
            let count = usize::try_from((*array).n_children).unwrap_or(0);
            for (at, field) in fields.into_iter().enumerate().take(count) {
                walk(*(*array).children.add(at), field);
            }
        }
    }
    // SAFETY: as this function's; both structs have the layout of the interface.
    unsafe { walk(array.cast(), kind) }
}

/// The record batches of an object with `__arrow_c_stream__`, or `__arrow_c_array__`.
pub(crate) fn reader_of(table: &Bound<'_, PyAny>) -> PyResult<Box<dyn RecordBatchReader + Send>> {
    let wrong = |problem: &dyn std::fmt::Display| {
        raise_data(format!("`table` is no table of Arrow's: {problem}"))
    };
    if table.hasattr("__arrow_c_stream__")? {
        let capsule = table.call_method0("__arrow_c_stream__")?.cast_into::<PyCapsule>()?;
        let stream = capsule.pointer_checked(Some(c"arrow_array_stream"))?;
        let stream = stream.as_ptr().cast::<ArrowArrayStream>();
        // SAFETY: the name of the capsule says what it points to; the stream is moved out of it, and what is
        // left is marked as released.
        let stream = unsafe {
            let moved = ptr::read(stream);
            (*stream).release = None;
            moved
        };
        let reader = StreamReader::new(stream).map_err(|error| wrong(&error))?;
        return Ok(Box::new(reader));
    }
    if table.hasattr("__arrow_c_array__")? {
        let capsules = table.call_method0("__arrow_c_array__")?.cast_into::<PyTuple>()?;
        let capsule =
            |at: usize| capsules.get_item(at)?.cast_into::<PyCapsule>().map_err(PyErr::from);
        let (schema, array) = (capsule(0)?, capsule(1)?);
        let schema = schema.pointer_checked(Some(c"arrow_schema"))?;
        let array = array.pointer_checked(Some(c"arrow_array"))?;
        // SAFETY: as above.
        let schema = unsafe { FFI_ArrowSchema::from_raw(schema.as_ptr().cast()) };
        // SAFETY: as above.
        let array = unsafe { FFI_ArrowArray::from_raw(array.as_ptr().cast()) };
        check_levels(&schema).map_err(|error| wrong(&error))?;
        let kind = DataType::try_from(&schema).map_err(|error| wrong(&error))?;
        let DataType::Struct(fields) = &kind else {
            return Err(wrong(&format!("an array of `{kind}`, expected record batches")));
        };
        let schema = Arc::new(Schema::new(fields.clone()));
        // SAFETY: the producer gives an array together with its schema.
        let batch = unsafe { batch_of(array, kind, &schema) };
        let batch = batch.map_err(|error| wrong(&error))?;
        return Ok(Box::new(RecordBatchIterator::new([Ok(batch)], schema)));
    }
    let kind = table.get_type();
    Err(PyTypeError::new_err(format!(
        "`table` is `{}`, expected an object with `__arrow_c_stream__` or `__arrow_c_array__`, such as a table \
         of pyarrow or a frame of polars",
        kind.name()?
    )))
}
