//! Lists of values, as callers say them.

use crate::value::Value;

/// What can be said in place of a list of values: a list, one value, or a tuple of them.
pub trait IntoValues<'v> {
    /// The list.
    fn into_values(self) -> Vec<Value<'v>>;
}

impl<'v> IntoValues<'v> for Vec<Value<'v>> {
    fn into_values(self) -> Vec<Value<'v>> {
        self
    }
}

impl<'v> IntoValues<'v> for &'v [Value<'_>] {
    fn into_values(self) -> Vec<Value<'v>> {
        self.iter().map(Value::borrowed).collect()
    }
}

impl<'v> IntoValues<'v> for &'v Vec<Value<'_>> {
    fn into_values(self) -> Vec<Value<'v>> {
        self.as_slice().into_values()
    }
}

impl<'v, const N: usize> IntoValues<'v> for [Value<'v>; N] {
    fn into_values(self) -> Vec<Value<'v>> {
        self.into()
    }
}

macro_rules! one_value {
    ($($type:ty),*) => {$(
        impl<'v> IntoValues<'v> for $type {
            fn into_values(self) -> Vec<Value<'v>> {
                vec![self.into()]
            }
        }
    )*};
}

one_value!(Value<'v>, bool, i8, i16, i32, i64, u8, u16, u32, u64, f32, f64, &'v str, String, &'v String, &'v [u8]);
one_value!(Vec<u8>, crate::Decimal, crate::Date, crate::Timestamp, uuid::Uuid);

macro_rules! tuple_of_values {
    ($($name:ident),*) => {
        impl<'v, $($name: Into<Value<'v>>),*> IntoValues<'v> for ($($name,)*) {
            #[allow(non_snake_case, reason = "a type parameter names its value")]
            fn into_values(self) -> Vec<Value<'v>> {
                let ($($name,)*) = self;
                vec![$($name.into()),*]
            }
        }
    };
}

tuple_of_values!(A);
tuple_of_values!(A, B);
tuple_of_values!(A, B, C);
tuple_of_values!(A, B, C, D);
tuple_of_values!(A, B, C, D, E);
tuple_of_values!(A, B, C, D, E, F);
tuple_of_values!(A, B, C, D, E, F, G);
tuple_of_values!(A, B, C, D, E, F, G, H);
