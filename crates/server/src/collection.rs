//! Conversion of one item, lists and tuples into a list of items.

/// Implements a trait such as [`IntoTools`](crate::IntoTools) for one of its items and for results,
/// lists and tuples of what it is implemented for.
macro_rules! collection {
    ($into:ident :: $method:ident -> $item:ty, $error:ty) => {
        impl $into for $item {
            fn $method(self) -> Result<Vec<$item>, $error> {
                Ok(vec![self])
            }
        }

        impl<T: $into> $into for Result<T, $error> {
            fn $method(self) -> Result<Vec<$item>, $error> {
                self?.$method()
            }
        }

        impl<T: $into> $into for Vec<T> {
            fn $method(self) -> Result<Vec<$item>, $error> {
                let mut all = Vec::with_capacity(self.len());
                for one in self {
                    all.extend(one.$method()?);
                }
                Ok(all)
            }
        }

        impl<T: $into, const N: usize> $into for [T; N] {
            fn $method(self) -> Result<Vec<$item>, $error> {
                Vec::from(self).$method()
            }
        }

        // Tuples may be nested, so any number of items can be given.
        $crate::collection::tuples! {
            $into :: $method -> $item, $error; A B C D E F G H I J K L M N O P
        }
    };
}

macro_rules! tuples {
    ($into:ident :: $method:ident -> $item:ty, $error:ty; $($first:ident $($rest:ident)*)?) => {
        // Seventeen candidate impls would bury the message that says what to do.
        #[diagnostic::do_not_recommend]
        impl<$($first: $into, $($rest: $into,)*)?> $into for ($($first, $($rest,)*)?) {
            #[allow(non_snake_case, reason = "a type parameter names its value, too")]
            fn $method(self) -> Result<Vec<$item>, $error> {
                let ($($first, $($rest,)*)?) = self;
                #[allow(unused_mut, reason = "an empty tuple adds nothing")]
                let mut all = Vec::new();
                $(all.extend($first.$method()?); $(all.extend($rest.$method()?);)*)?
                Ok(all)
            }
        }
        $($crate::collection::tuples! { $into :: $method -> $item, $error; $($rest)* })?
    };
}

pub(crate) use {collection, tuples};
