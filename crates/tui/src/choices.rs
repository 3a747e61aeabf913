//! Enums whose values have a display text and an order.

/// Declares an enum with `ALL` values in order, their text by `as_str`, and the `next` value, cyclic.
macro_rules! choices {
    ($(#[$attribute:meta])* $visibility:vis enum $name:ident { $($(#[$of_value:meta])* $value:ident = $text:literal,)+ }) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $visibility enum $name {
            $($(#[$of_value])* $value,)+
        }

        impl $name {
            /// All values in order.
            pub(crate) const ALL: [Self; [$(Self::$value),+].len()] = [$(Self::$value),+];

            /// The display text.
            pub(crate) fn as_str(self) -> &'static str {
                match self {
                    $(Self::$value => $text,)+
                }
            }

            /// The next value, cyclic.
            #[must_use]
            pub(crate) fn next(self) -> Self {
                Self::ALL[(self as usize + 1) % Self::ALL.len()]
            }
        }
    };
}
