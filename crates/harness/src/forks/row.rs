//! The form of a row. Rows are in the folders of the parents: `forks.rs`. What they say is from public sources and session
//! files that people published.

/// Makes a fork of its row: the module of its dialects, and the program.
macro_rules! fork {
    (
        $(#[$words:meta])*
        $fork:ident, $module:ident: $name:literal, $title:literal, of: $parent:expr,
        dialects: [$($dialect:ident = $family:ident::$make:ident, $ending:literal);*], transcripts: $transcripts:expr,
        variables: $variables:expr, folder: $folder:literal, others: $others:expr, paths: $paths:expr,
        marks: $marks:expr, program: $program:expr, gaps: [$($gap:literal),* $(,)?]
    ) => {
        #[doc = concat!("The dialects of ", $title, ".")]
        pub mod $module {
            $(
                #[doc = concat!("Its lines of the form of [`", stringify!($family), "::", stringify!($dialect), "`](crate::", stringify!($family), "::", stringify!($dialect), ").")]
                pub const $dialect: subscope_decode::Dialect =
                    subscope_decode::Dialect::new(&crate::$family::$make($name, concat!($name, ".", $ending), false));
            )*
        }

        $(#[$words])*
        pub static $fork: $crate::forks::Fork = $crate::forks::Fork {
            name: $name,
            title: $title,
            parent: $parent,
            of: &[$(crate::$family::$dialect),*],
            dialects: &[$($module::$dialect),*],
            variables: $variables,
            folder: $folder,
            others: $others,
            transcripts: $transcripts,
            paths: $paths,
            marks: $marks,
            program: $program,
            gaps: &[concat!("not run here: what is read of ", $title, " is known from public sources"), $($gap),*],
            unstoppable: concat!("no way to end one of the agents of ", $title, " was tried"),
        };
    };
}

pub(crate) use fork;
