//! The methods of every version. Each has one row with everything the gateway needs to know about it; code that depends
//! on a method looks at its row. The shapes of parameters and results are in `shapes`.

pub(super) mod controls;
mod lists;
pub(crate) mod places;
mod queries;
pub(super) mod row;
mod rows;
pub(super) mod shapes;

pub(super) use controls::{ControlMember, META_MEMBERS};
pub(crate) use controls::{RESOURCE_SUBSCRIPTIONS, TASK_IDS};
pub(crate) use lists::ListKind;
pub(crate) use places::Paths;
pub use row::MethodAccess;
pub(crate) use row::{MethodSubject, ResultShape};
pub use rows::Method;
