//! Color palettes. Color means status only; selection and focus are shown by weight and background.

use ratatui::style::{Color, Style};
use subscope_render::Ink;

/// A color palette.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Palette {
    /// For dark backgrounds, 256 colors.
    Dark,
    /// For light backgrounds, 256 colors.
    Light,
    /// High contrast.
    Contrast,
    /// The sixteen ANSI colors of the terminal's own theme.
    Sixteen,
}

impl Palette {
    /// All palettes.
    pub const ALL: [Self; 4] = [Self::Dark, Self::Light, Self::Contrast, Self::Sixteen];

    /// The value as written in the settings file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Dark => "dark",
            Self::Light => "light",
            Self::Contrast => "contrast",
            Self::Sixteen => "16",
        }
    }

    /// The next palette, cyclic.
    #[must_use]
    pub fn next(self) -> Self {
        match self {
            Self::Dark => Self::Light,
            Self::Light => Self::Contrast,
            Self::Contrast => Self::Sixteen,
            Self::Sixteen => Self::Dark,
        }
    }
}

/// Terminal styles of a palette.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Theme {
    palette: Option<Palette>,
}

impl Theme {
    /// Creates the theme of a palette, or a colorless one.
    pub(crate) fn new(palette: Palette, has_color: bool) -> Self {
        Self { palette: has_color.then_some(palette) }
    }

    /// Style of a line part.
    pub(crate) fn ink(self, ink: Option<Ink>) -> Style {
        let (plain, bold) = (Style::new(), Style::new().bold());
        let (ink, palette) = match (ink, self.palette) {
            (None, _) => return plain,
            (Some(Ink::Done), None) => return plain.dim(),
            (Some(_), None) => return bold,
            (Some(ink), Some(palette)) => (ink, palette),
        };
        let [running, done, failed, stalled, waiting] = inks(palette);
        let status = if palette == Palette::Contrast { bold } else { plain };
        match ink {
            Ink::Running => status.fg(running),
            Ink::Done => plain.fg(done),
            Ink::Failed => status.fg(failed),
            Ink::Stalled => status.fg(stalled),
            Ink::Waiting => status.fg(waiting),
            Ink::Strong => bold,
        }
    }

    /// Background of the selection; weaker if its panel has no focus.
    pub(crate) fn selected(self, has_focus: bool) -> Style {
        let ground =
            |focused: u8, other: u8| Style::new().bg(Color::Indexed(if has_focus { focused } else { other }));
        match self.palette {
            Some(Palette::Dark) => ground(238, 235),
            Some(Palette::Light) => ground(252, 255),
            Some(Palette::Contrast | Palette::Sixteen) | None if has_focus => Style::new().reversed(),
            Some(Palette::Contrast | Palette::Sixteen) | None => Style::new().underlined(),
        }
    }

    /// Style of the lines between panels.
    pub(crate) fn rule(self) -> Style {
        match self.palette {
            Some(Palette::Dark) => Style::new().fg(Color::Indexed(239)),
            Some(Palette::Light) => Style::new().fg(Color::Indexed(250)),
            Some(Palette::Contrast) => Style::new().fg(Color::Gray),
            Some(Palette::Sixteen) => Style::new().fg(Color::DarkGray),
            None => Style::new().dim(),
        }
    }
}

/// Colors of running, done, failed, stalled, waiting.
fn inks(palette: Palette) -> [Color; 5] {
    match palette {
        Palette::Dark => [80, 245, 203, 214, 177].map(Color::Indexed),
        Palette::Light => [30, 243, 160, 130, 127].map(Color::Indexed),
        Palette::Contrast => {
            [Color::LightCyan, Color::Gray, Color::LightRed, Color::LightYellow, Color::LightMagenta]
        }
        Palette::Sixteen => [Color::Cyan, Color::DarkGray, Color::Red, Color::Yellow, Color::Magenta],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_colors_there_is_none_and_states_keep_apart_from_what_is_done() {
        let theme = Theme::new(Palette::Dark, false);
        for ink in [Ink::Running, Ink::Done, Ink::Failed, Ink::Stalled, Ink::Waiting, Ink::Strong] {
            let style = theme.ink(Some(ink));
            assert_eq!((style.fg, style.bg), (None, None), "{ink:?}");
        }
        assert_eq!((theme.selected(true).bg, theme.rule().fg), (None, None));
        assert_ne!(theme.ink(Some(Ink::Running)), theme.ink(Some(Ink::Done)));
    }

    #[test]
    fn states_differ_in_every_palette() {
        for palette in Palette::ALL {
            let theme = Theme::new(palette, true);
            let mut seen: Vec<Style> = Vec::new();
            for ink in [Ink::Running, Ink::Done, Ink::Failed, Ink::Stalled, Ink::Waiting] {
                let style = theme.ink(Some(ink));
                assert!(!seen.contains(&style), "{palette:?} {ink:?}");
                seen.push(style);
            }
        }
    }
}
