//! What the user chose: order, filter and place of the list of segments.

use ratatui::termion::event::Key;

use super::told::Segment;

/// The column that the segments are sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Name,
    Tier,
    Fill,
    Used,
}

impl Order {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Tier => "tier",
            Self::Fill => "fill",
            Self::Used => "used",
        }
    }

    fn next(self) -> Self {
        match self {
            Self::Name => Self::Tier,
            Self::Tier => Self::Fill,
            Self::Fill => Self::Used,
            Self::Used => Self::Name,
        }
    }
}

/// What follows from a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Show,
    End,
}

/// What is shown of the list of segments, and how.
#[derive(Debug)]
pub(super) struct View {
    pub(super) order: Order,
    pub(super) is_reversed: bool,
    /// A part of the names, domains or states of the segments that are shown.
    pub(super) filter: String,
    /// Whether keys go to the filter.
    pub(super) is_typing: bool,
    /// The first segment that is shown.
    pub(super) first: usize,
}

impl View {
    pub(super) fn new() -> Self {
        Self {
            order: Order::Name,
            is_reversed: false,
            filter: String::new(),
            is_typing: false,
            first: 0,
        }
    }

    pub(super) fn on_key(&mut self, key: Key) -> Next {
        match key {
            Key::Ctrl('c') => return Next::End,
            key if self.is_typing => self.on_typed(key),
            Key::Char('q') | Key::Esc => return Next::End,
            Key::Char('s') => self.order = self.order.next(),
            Key::Char('r') => self.is_reversed = !self.is_reversed,
            Key::Char('/') => self.is_typing = true,
            Key::Down | Key::Char('j') => self.first = self.first.saturating_add(1),
            Key::Up | Key::Char('k') => self.first = self.first.saturating_sub(1),
            Key::Home => self.first = 0,
            _ => {}
        }
        Next::Show
    }

    fn on_typed(&mut self, key: Key) {
        self.first = 0;
        match key {
            Key::Char('\n') => self.is_typing = false,
            Key::Esc => {
                self.filter.clear();
                self.is_typing = false;
            }
            Key::Backspace => {
                self.filter.pop();
            }
            Key::Char(c) if !c.is_control() => self.filter.push(c),
            _ => {}
        }
    }

    /// The segments to show, in their order, all pages of them.
    pub(super) fn listed<'a>(&self, segments: &'a [Segment]) -> Vec<&'a Segment> {
        let filter = self.filter.to_lowercase();
        let is_wanted = |segment: &&Segment| {
            let texts = [segment.name.clone(), segment.state(), segment.domains.join(" ")];
            texts.iter().any(|text| text.to_lowercase().contains(&filter))
        };
        let mut listed: Vec<_> = segments.iter().filter(is_wanted).collect();
        listed.sort_by(|a, b| match self.order {
            Order::Name => a.name.cmp(&b.name),
            Order::Tier => a.medium.cmp(&b.medium),
            // The fullest first.
            Order::Fill => b.fill().total_cmp(&a.fill()),
            Order::Used => b.used.cmp(&a.used),
        });
        if self.is_reversed {
            listed.reverse();
        }
        listed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(name: &str, medium: &str, used: u64, bytes: u64) -> Segment {
        let (name, medium, domains) =
            (name.to_owned(), medium.to_owned(), vec!["zone=R7".to_owned()]);
        let state = "OK".to_owned();
        Segment { name, medium, domains, state, in_sight: true, reachable: true, bytes, used }
    }

    #[test]
    fn keys_sort_and_filter() {
        let segments = [
            segment("b1", "memory", 5, 10),
            segment("a1", "memory", 6, 100),
            segment("a2", "disk", 9, 10),
        ];
        let names = |keys: &str| {
            let mut view = View::new();
            keys.chars().for_each(|key| assert_eq!(view.on_key(Key::Char(key)), Next::Show));
            let names = view.listed(&segments).iter().map(|it| it.name.clone()).collect::<Vec<_>>();
            names.join(" ")
        };
        for (keys, expected) in [
            ("", "a1 a2 b1"),
            ("r", "b1 a2 a1"),
            ("s", "a2 b1 a1"),
            ("ss", "a2 b1 a1"),
            ("sss", "a2 a1 b1"),
            ("ssss", "a1 a2 b1"),
            ("/a\n", "a1 a2"),
            ("/A1\n", "a1"),
            ("/r7\n", "a1 a2 b1"),
            ("/out of", ""),
            ("/1\nr", "b1 a1"),
        ] {
            assert_eq!(names(keys), expected, "{keys:?}");
        }
    }

    #[test]
    fn keys_end_the_view_and_edit_the_filter() {
        let mut view = View::new();
        assert_eq!(view.on_key(Key::Char('q')), Next::End);
        view.is_typing = true;
        assert_eq!(view.on_key(Key::Ctrl('c')), Next::End);
        view.filter = "ab".to_owned();
        assert_eq!((view.on_key(Key::Backspace), &*view.filter), (Next::Show, "a"));
        assert_eq!((view.on_key(Key::Esc), &*view.filter, view.is_typing), (Next::Show, "", false));
        assert_eq!((view.on_key(Key::Down), view.first), (Next::Show, 1));
        assert_eq!(
            (view.on_key(Key::Up), view.on_key(Key::Up), view.first),
            (Next::Show, Next::Show, 0)
        );
    }
}
