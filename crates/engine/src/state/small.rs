//! Enumerations that are stored as small numbers and displayed by a stable name.

/// An enumeration stored as a small number. Numbers and names are part of the stored format: never reuse one.
pub trait SmallEnum: Copy + Sized + 'static {
    const ALL: &'static [Self];
    fn number(self) -> i16;
    fn name(self) -> &'static str;

    fn from_number(number: i16) -> Option<Self> {
        Self::ALL.iter().copied().find(|value| value.number() == number)
    }

    fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|value| value.name() == name)
    }
}

macro_rules! small_enum {
    ($(#[$meta:meta])* $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $number:literal $text:literal,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name { $($(#[$variant_meta])* $variant = $number,)* }

        impl $crate::state::SmallEnum for $name {
            const ALL: &'static [Self] = &[$($name::$variant,)*];
            fn number(self) -> i16 { self as i16 }
            fn name(self) -> &'static str { match self { $($name::$variant => $text,)* } }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str($crate::state::SmallEnum::name(*self))
            }
        }
    };
}
pub(crate) use small_enum;
