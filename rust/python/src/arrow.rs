//! Arrow's C data interface: an array for pyarrow, polars and others, without a copy of its items.
//!
//! In: items that live as long as their owner. Out: the two capsules of `__arrow_c_array__`, a schema and an
//! array. Cost: a few allocations, whatever the number of items.
//!
//! With `unsafe`, because the interface is two C structs that a consumer releases by a function pointer.
//! Each struct owns what it points to through `private_data`; its release function frees that once, and
//! marks the struct as released.
#![allow(unsafe_code)]

use std::any::Any;
use std::ffi::{CStr, c_char, c_void};
use std::ptr;

use arrow_array::RecordBatchReader;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_schema::Schema;
use arrow_schema::ffi::FFI_ArrowSchema;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};

/// `struct ArrowSchema` of the C data interface.
#[repr(C)]
struct ArrowSchema {
    format: *const c_char,
    name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    n_children: i64,
    children: *mut *mut ArrowSchema,
    dictionary: *mut ArrowSchema,
    release: Option<unsafe extern "C" fn(*mut ArrowSchema)>,
    private_data: *mut c_void,
}

/// `struct ArrowArray` of the C data interface.
#[repr(C)]
pub(crate) struct ArrowArray {
    pub(crate) length: i64,
    pub(crate) null_count: i64,
    pub(crate) offset: i64,
    pub(crate) n_buffers: i64,
    pub(crate) n_children: i64,
    pub(crate) buffers: *mut *const c_void,
    pub(crate) children: *mut *mut ArrowArray,
    pub(crate) dictionary: *mut ArrowArray,
    pub(crate) release: Option<unsafe extern "C" fn(*mut ArrowArray)>,
    pub(crate) private_data: *mut c_void,
}

/// What an array owns until it is released.
struct Held {
    buffers: Box<[*const c_void]>,
    children: Box<[*mut ArrowArray]>,
    _owner: Box<dyn Any + Send>,
}

/// An array before it is exported: its type, its buffers, and what keeps their memory.
pub(crate) struct Exported {
    format: &'static CStr,
    length: usize,
    null_count: usize,
    buffers: Box<[*const c_void]>,
    child: Option<Box<Exported>>,
    owner: Box<dyn Any + Send>,
}

impl Exported {
    /// Items without nulls, of a primitive type: Arrow's `format`, and where they begin in memory.
    ///
    /// # Safety
    /// `items` points to `length` items of the type that `format` names, which neither move nor change
    /// while `owner` lives.
    pub(crate) unsafe fn primitive(
        format: &'static CStr,
        length: usize,
        items: *const c_void,
        owner: impl Any + Send,
    ) -> Self {
        let buffers = Box::new([ptr::null(), items]);
        Self { format, length, null_count: 0, buffers, child: None, owner: Box::new(owner) }
    }

    /// Lists of the items of `child`: list `i` is `child[offsets[i]..offsets[i + 1]]`, or null.
    pub(crate) fn large_list(offsets: Vec<i64>, nulls: &[usize], child: Self) -> Self {
        let length = offsets.len().saturating_sub(1);
        let mut valid = vec![u8::MAX; length.div_ceil(8)];
        for &null in nulls {
            valid[null / 8] &= !(1 << (null % 8));
        }
        let validity = if nulls.is_empty() { ptr::null() } else { valid.as_ptr().cast() };
        let buffers = Box::new([validity, offsets.as_ptr().cast()]);
        let (child, owner) = (Some(Box::new(child)), Box::new((valid, offsets)));
        Self { format: c"+L", length, null_count: nulls.len(), buffers, child, owner }
    }

    fn schema(&self, name: &'static CStr) -> ArrowSchema {
        const NULLABLE: i64 = 2;
        let child = self.child.as_ref().map(|child| Box::into_raw(Box::new(child.schema(c"item"))));
        let children: Box<[*mut ArrowSchema]> = child.into_iter().collect();
        ArrowSchema {
            format: self.format.as_ptr(),
            name: name.as_ptr(),
            metadata: ptr::null(),
            flags: NULLABLE,
            n_children: i64::from(self.child.is_some()),
            children: Box::into_raw(children).cast(),
            dictionary: ptr::null_mut(),
            release: Some(release_schema),
            private_data: ptr::null_mut(),
        }
    }

    fn array(self) -> ArrowArray {
        let child = self.child.map(|child| Box::into_raw(Box::new(child.array())));
        let mut held = Box::new(Held {
            buffers: self.buffers,
            children: child.into_iter().collect(),
            _owner: self.owner,
        });
        ArrowArray {
            length: self.length as i64,
            null_count: self.null_count as i64,
            offset: 0,
            n_buffers: held.buffers.len() as i64,
            n_children: held.children.len() as i64,
            buffers: held.buffers.as_mut_ptr(),
            children: held.children.as_mut_ptr(),
            dictionary: ptr::null_mut(),
            release: Some(release_array),
            private_data: Box::into_raw(held).cast(),
        }
    }

    /// The capsules that `__arrow_c_array__` returns. A consumer that wants another type casts by itself.
    pub(crate) fn capsules(self, py: Python<'_>) -> PyResult<Bound<'_, PyTuple>> {
        let schema = PyCapsule::new_with_value(py, self.schema(c""), c"arrow_schema")?;
        let array = PyCapsule::new_with_value(py, self.array(), c"arrow_array")?;
        PyTuple::new(py, [schema, array])
    }
}

/// Frees what a schema owns.
///
/// # Safety
/// `schema` is one that [`Exported::schema`] made, possibly moved, and not yet released.
unsafe extern "C" fn release_schema(schema: *mut ArrowSchema) {
    // SAFETY: the children were boxed, one by one and as a slice, by `Exported::schema`; a consumer may have
    // released a child already, which leaves its struct to its parent.
    unsafe {
        let schema = &mut *schema;
        let count = schema.n_children as usize;
        let children = Box::from_raw(ptr::slice_from_raw_parts_mut(schema.children, count));
        for &child in &children {
            drop(Box::from_raw(child));
        }
        schema.release = None;
    }
}

/// Frees what an array owns.
///
/// # Safety
/// `array` is one that [`Exported::array`] made, possibly moved, and not yet released.
unsafe extern "C" fn release_array(array: *mut ArrowArray) {
    // SAFETY: `private_data` and the children were boxed by `Exported::array`; a child that a consumer moved
    // away is marked as released, and its struct is left to its parent.
    unsafe {
        let array = &mut *array;
        let held = Box::from_raw(array.private_data.cast::<Held>());
        for &child in &held.children {
            drop(Box::from_raw(child));
        }
        array.release = None;
    }
}

impl Drop for ArrowSchema {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: not released yet, as the field says.
            unsafe { release(self) };
        }
    }
}

impl Drop for ArrowArray {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: not released yet, as the field says.
            unsafe { release(self) };
        }
    }
}

// SAFETY: what the pointers reach is owned by the struct, read-only, and freed from whichever thread drops it.
unsafe impl Send for ArrowSchema {}
// SAFETY: as above; the owner is `Send`.
unsafe impl Send for ArrowArray {}

/// The capsule that `__arrow_c_stream__` returns.
pub(crate) fn stream_capsule(
    py: Python<'_>,
    reader: Box<dyn RecordBatchReader + Send>,
) -> PyResult<Bound<'_, PyCapsule>> {
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(reader), c"arrow_array_stream")
}

/// The capsule that `__arrow_c_schema__` returns.
pub(crate) fn schema_capsule<'py>(
    py: Python<'py>,
    schema: &Schema,
) -> PyResult<Bound<'py, PyCapsule>> {
    let schema = FFI_ArrowSchema::try_from(schema)
        .map_err(|error| PyTypeError::new_err(format!("the schema cannot be exported: {error}")))?;
    PyCapsule::new_with_value(py, schema, c"arrow_schema")
}
