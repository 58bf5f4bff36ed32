//! Rows as structs.

/// Defines a struct read from a row: each field from the column of its name.
macro_rules! columns {
    (struct $name:ident { $($column:ident: $type:ty,)+ }) => {
        struct $name {
            $($column: $type,)+
        }

        impl sqlx::FromRow<'_, sqlx::any::AnyRow> for $name {
            fn from_row(row: &sqlx::any::AnyRow) -> sqlx::Result<Self> {
                Ok(Self { $($column: sqlx::Row::try_get(row, stringify!($column))?,)+ })
            }
        }
    };
}

pub(super) use columns;
