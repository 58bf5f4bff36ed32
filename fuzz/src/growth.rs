//! The growth oracle: what each parser and transformer writes, holds and takes while its input grows. `src/bin/growth.rs`
//! measures all of it; `tests/it/fuzz.rs` compares the output for small inputs.

mod functions;
mod shapes;
mod wire_shapes;

pub use functions::FUNCTIONS;

use bytes::Bytes;

/// A parser or transformer, with its bounds and the inputs that it is measured with.
pub struct Function {
    /// Its name in the table.
    pub name: &'static str,
    /// Bytes of output: the factor of the input, and a constant.
    pub output: (usize, usize),
    /// The same for bytes held at once beside the input, the output included.
    pub memory: (usize, usize),
    /// Runs it, and returns the bytes of output; `None` if the input is refused.
    pub run: fn(&Bytes) -> Option<usize>,
    /// Its inputs.
    pub shapes: fn() -> Vec<Shape>,
    /// Larger inputs are refused before they come here.
    pub largest: usize,
}

/// Inputs of one form in any size.
#[derive(Clone, Copy)]
pub struct Shape {
    /// Its name in the table.
    pub name: &'static str,
    /// An input of about this many bytes.
    pub make: fn(usize) -> Vec<u8>,
}

// === impl Function ===

impl Function {
    /// The most bytes of output for an input of this length.
    pub const fn most_output(&self, input: usize) -> usize {
        self.output.0 * input + self.output.1
    }

    /// The most bytes that are held.
    pub const fn most_memory(&self, input: usize) -> usize {
        self.memory.0 * input + self.memory.1
    }
}

/// Functions that write more than their bound for inputs of these sizes; each named with the shape.
pub fn above_output_bound(sizes: &[usize]) -> Vec<String> {
    let mut above = Vec::new();
    for function in FUNCTIONS {
        for shape in (function.shapes)() {
            for size in sizes.iter().filter(|size| **size <= function.largest) {
                let input = Bytes::from((shape.make)(*size));
                let Some(output) = (function.run)(&input) else { break };
                if output > function.most_output(input.len()) {
                    above.push(format!("{}: {} bytes of {}: {output}", function.name, input.len(), shape.name));
                }
            }
        }
    }
    above
}
