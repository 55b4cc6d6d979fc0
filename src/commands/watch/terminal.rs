//! The terminal: in raw mode, on its alternate screen, with the mouse; restored however the screen ends.

use std::fs::File;
use std::io::{self, IsTerminal, Stdout, stdin, stdout};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use diskwright_dashboard::screen::{ScreenAction, ScreenKey, WatchScreen, draw_screen};
use diskwright_dashboard::{DashboardView, Viewer};
use diskwright_diagnosis::Verdict;
use diskwright_report::{DisplayZone, Style};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{
    self, DisableMouseCapture, EnableMouseCapture, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton,
    MouseEventKind,
};
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use ratatui::crossterm::{cursor, execute, terminal};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, getpid, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGTSTP};

use super::super::{Failure, output, time_argument};
use super::range_comparison;
use super::screen_style;
use super::sources::WatchSource;
use crate::commands::own_cost::OwnCostMeter;

/// Maximum wait for a key before new ticks are taken.
const KEY_TIMEOUT: Duration = Duration::from_millis(200);

/// Columns and rows of the terminal.
pub fn terminal_size() -> Option<(u16, u16)> {
    terminal::size().ok()
}

/// The terminal while the screen is on it.
struct TakenTerminal(Terminal<CrosstermBackend<Stdout>>);

impl TakenTerminal {
    /// Takes the terminal; a panic of any thread restores it and sets `ended`, because further drawing would cover the
    /// panic's message.
    fn take_terminal(ended: &Arc<AtomicBool>) -> io::Result<TakenTerminal> {
        let terminal = Terminal::new(CrosstermBackend::new(stdout()))?;
        enter_screen()?;
        // a panic's message must be on the screen that stays
        let (previous_hook, ended) = (std::panic::take_hook(), Arc::clone(ended));
        std::panic::set_hook(Box::new(move |info| {
            ended.store(true, Ordering::Relaxed);
            leave_screen();
            previous_hook(info);
        }));
        Ok(TakenTerminal(terminal))
    }

    /// Stops this program as Ctrl-Z does, with the terminal restored; redraws when it continues.
    fn suspend_program(&mut self) -> io::Result<()> {
        leave_screen();
        kill_process(getpid(), Signal::STOP)?;
        enter_screen()?;
        self.0.clear()
    }
}

impl Drop for TakenTerminal {
    fn drop(&mut self) {
        leave_screen();
    }
}

fn enter_screen() -> io::Result<()> {
    enable_raw_mode()?;
    output::hold_messages();
    execute!(stdout(), EnterAlternateScreen, EnableMouseCapture, cursor::Hide)
}

/// Leaves the screen; nothing more can be done if that fails.
fn leave_screen() {
    let _ = execute!(stdout(), cursor::Show, DisableMouseCapture, LeaveAlternateScreen);
    let _ = disable_raw_mode();
    output::release_messages();
}

/// Shows the screen until the user leaves it.
pub fn run_screen(source: &mut WatchSource, viewer: &mut Viewer) -> Result<(), Failure> {
    let ended = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&ended))?;
    }
    let suspended = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGTSTP, Arc::clone(&suspended))?;
    source.wait_for_ticks(1)?;
    let Some(range) = source.range() else { return Err(Failure::Failed("nothing was recorded".into())) };
    let mut screen = WatchScreen::new(source.is_live(), source.interval_ns(), range.1 - range.0);
    let mut meter = OwnCostMeter::default();
    let keyboard = open_keyboard()?;
    end_without_terminal(keyboard.try_clone()?, &ended)?;
    let mut taken = TakenTerminal::take_terminal(&ended)?;
    let mut view = update_screen(&mut taken, source, viewer, &mut screen, &mut meter)?;
    let mut message_count = 0;
    while !ended.load(Ordering::Relaxed) {
        let new_ticks = source.take_new();
        if ended.load(Ordering::Relaxed) {
            break;
        }
        let is_new = new_ticks?;
        if is_new {
            viewer.renew_timeline();
        }
        screen.set_live(source.is_live());
        // a log that stands still can only have a new alert, wherever the cursor is
        let mut changed = is_new && (screen.is_following_end() || !screen.is_live());
        if suspended.swap(false, Ordering::Relaxed) {
            taken.suspend_program()?;
            changed = true;
        }
        changed |= show_new_messages(&mut screen, &mut message_count);
        if !wait_for_keys(&keyboard)? {
            return Ok(());
        }
        // all typed keys are handled before the screen is drawn
        while event::poll(Duration::ZERO)? {
            changed = true;
            let Some(key) = translate_event(&event::read()?) else { continue };
            match key {
                TerminalKey::End => return Ok(()),
                TerminalKey::Suspend => taken.suspend_program()?,
                TerminalKey::Redraw => taken.0.clear()?,
                TerminalKey::Key(key) => {
                    let range = source.range().unwrap_or(range);
                    match screen.handle_key(key, &view, range) {
                        ScreenAction::Redraw => {}
                        ScreenAction::Quit => return Ok(()),
                        action => perform_action(action, source, viewer, &mut screen),
                    }
                }
            }
        }
        if changed {
            view = update_screen(&mut taken, source, viewer, &mut screen, &mut meter)?;
        }
    }
    Ok(())
}

/// Opens the source of keys: the same terminal that the event reader uses.
fn open_keyboard() -> io::Result<OwnedFd> {
    if stdin().is_terminal() { stdin().as_fd().try_clone_to_owned() } else { Ok(File::open("/dev/tty")?.into()) }
}

/// Time for the screen to end by itself after its terminal has gone.
const END_GRACE: Duration = Duration::from_secs(5);

/// Ends the program if its terminal goes away inside the event reader, which then reads the end of the terminal's file
/// over and over and never returns.
#[allow(clippy::disallowed_methods, reason = "the thread that would end the program is held by the event reader")]
fn end_without_terminal(keyboard: OwnedFd, ended: &Arc<AtomicBool>) -> io::Result<()> {
    let ended = Arc::clone(ended);
    std::thread::Builder::new()
        .name("terminal".into())
        .stack_size(crate::commands::process_limits::SMALL_STACK_BYTES)
        .spawn(move || {
            // a hang-up is reported without being requested
            let mut fds = [PollFd::new(&keyboard, PollFlags::empty())];
            let outcome = loop {
                match poll(&mut fds, None) {
                    Err(rustix::io::Errno::INTR) => {}
                    outcome => break outcome,
                }
            };
            if outcome.is_err() {
                return;
            }
            ended.store(true, Ordering::Relaxed);
            std::thread::sleep(END_GRACE);
            std::process::exit(0);
        })?;
    Ok(())
}

/// Waits for keys or the next update; false if the terminal has gone. The event reader would read the end of a
/// terminal's file over and over, and SIGHUP is not delivered if it was ignored before (`nohup`).
fn wait_for_keys(keyboard: &OwnedFd) -> io::Result<bool> {
    let nap = Timespec { tv_sec: 0, tv_nsec: i64::from(KEY_TIMEOUT.subsec_nanos()) };
    let mut fds = [PollFd::new(keyboard, PollFlags::IN)];
    match poll(&mut fds, Some(&nap)) {
        Ok(_) => Ok(!fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL)),
        // a signal, which the loop checks
        Err(rustix::io::Errno::INTR) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// Shows messages of other threads at the bottom of the screen; true if there are new ones.
fn show_new_messages(screen: &mut WatchScreen, known: &mut usize) -> bool {
    let (count, newest) = output::held_messages();
    let is_new = count > std::mem::replace(known, count);
    newest.filter(|_| is_new).into_iter().for_each(|line| screen.show_message(line.trim_end().replace('\n', " ")));
    is_new
}

/// Builds the view and draws it.
fn update_screen(
    taken: &mut TakenTerminal,
    source: &WatchSource,
    viewer: &mut Viewer,
    screen: &mut WatchScreen,
    meter: &mut OwnCostMeter,
) -> Result<DashboardView, Failure> {
    let range = source.range().unwrap_or_default();
    let columns = taken.0.size()?.width;
    let view = viewer.build_view(source.history(), &screen.view_window(range, columns)).map_err(Failure::Failed)?;
    let (style, cost) = (screen_style(), meter.measure_cost());
    taken.0.draw(|frame| draw_screen(screen, &view, cost, &style, frame.buffer_mut()))?;
    Ok(view)
}

/// Performs the action that a key requested.
fn perform_action(action: ScreenAction, source: &mut WatchSource, viewer: &mut Viewer, screen: &mut WatchScreen) {
    match action {
        ScreenAction::Mark(time_ns, text) => match source.add_bookmark(time_ns, text) {
            Ok(()) => {
                viewer.renew_timeline();
                screen.show_message("bookmark set");
            }
            Err(failure) => screen.show_message(output::escape_name(failure)),
        },
        ScreenAction::Compare(first, second) => {
            match range_comparison::compare_as_text(source.history(), viewer.pack(), first, second) {
                Ok(text) => screen.show_page(text),
                Err(failure) => screen.show_message(output::escape_name(failure)),
            }
        }
        ScreenAction::Goto(text) => {
            let range = source.range().unwrap_or_default();
            match time_argument::parse_time(&text, range.1) {
                Ok(time_ns) => screen.go_to_time(time_ns, range),
                Err(failure) => screen.show_message(output::escape_name(failure)),
            }
        }
        ScreenAction::Verdict => {
            // earlier keys may have moved away from the time that was drawn last
            let (range, columns) =
                (source.range().unwrap_or_default(), terminal_size().map_or(80, |(columns, _)| columns));
            let window = screen.view_window(range, columns);
            match viewer.build_view(source.history(), &window) {
                Ok(view) => screen.show_page(verdict_text(view.verdict.as_ref())),
                Err(reason) => screen.show_message(reason),
            }
        }
        ScreenAction::Redraw | ScreenAction::Quit => {}
    }
}

/// The verdict as `why` shows it, but in full, because the page scrolls.
fn verdict_text(verdict: Option<&Verdict>) -> String {
    let Some(verdict) = verdict else { return "too few ticks to judge\n".into() };
    let width = terminal_size().map_or(80, |(columns, _)| usize::from(columns).clamp(40, 100));
    let style = Style { colour: false, width, ..output::stdout_style() };
    diskwright_report::screen::draw_whole(verdict, &DisplayZone::local(), &style)
}

/// Input from the terminal.
enum TerminalKey {
    End,
    Suspend,
    Redraw,
    Key(ScreenKey),
}

fn translate_event(event: &Event) -> Option<TerminalKey> {
    match event {
        Event::Key(KeyEvent { code, modifiers, kind: KeyEventKind::Press | KeyEventKind::Repeat, .. }) => {
            if modifiers.contains(KeyModifiers::CONTROL) {
                return match code {
                    KeyCode::Char('c') => Some(TerminalKey::End),
                    KeyCode::Char('z') => Some(TerminalKey::Suspend),
                    KeyCode::Char('l') => Some(TerminalKey::Redraw),
                    _ => None,
                };
            }
            translate_key(*code).map(TerminalKey::Key)
        }
        Event::Mouse(mouse) => {
            let key = match mouse.kind {
                MouseEventKind::Down(MouseButton::Left) | MouseEventKind::Drag(MouseButton::Left) => {
                    ScreenKey::Click(mouse.column, mouse.row)
                }
                MouseEventKind::ScrollUp => ScreenKey::Wheel(true),
                MouseEventKind::ScrollDown => ScreenKey::Wheel(false),
                _ => return None,
            };
            Some(TerminalKey::Key(key))
        }
        Event::Resize(..) => Some(TerminalKey::Redraw),
        _ => None,
    }
}

fn translate_key(code: KeyCode) -> Option<ScreenKey> {
    Some(match code {
        KeyCode::Char(letter) => ScreenKey::Char(letter),
        KeyCode::Left => ScreenKey::Left,
        KeyCode::Right => ScreenKey::Right,
        KeyCode::Up => ScreenKey::Up,
        KeyCode::Down => ScreenKey::Down,
        KeyCode::PageUp => ScreenKey::PageUp,
        KeyCode::PageDown => ScreenKey::PageDown,
        KeyCode::Home => ScreenKey::Home,
        KeyCode::End => ScreenKey::End,
        KeyCode::Enter => ScreenKey::Enter,
        KeyCode::Esc => ScreenKey::Escape,
        KeyCode::Backspace => ScreenKey::Backspace,
        KeyCode::Tab => ScreenKey::Tab(false),
        KeyCode::BackTab => ScreenKey::Tab(true),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    /// Run by the test below, in a terminal.
    #[test]
    #[ignore = "takes the terminal and panics; the test below runs it"]
    fn panics_while_the_screen_is_shown() {
        output::install_panic_hook();
        let ended = Arc::new(AtomicBool::new(false));
        let _taken = TakenTerminal::take_terminal(&ended).expect("a terminal");
        output::print_warning("held back");
        let other = std::thread::spawn(|| panic!("on purpose"));
        assert!(other.join().is_err() && ended.load(Ordering::Relaxed));
    }

    #[test]
    fn panic_of_any_thread_restores_the_terminal_first() {
        let program = std::env::current_exe().expect("this program").display().to_string();
        let name = "commands::watch::terminal::tests::panics_while_the_screen_is_shown";
        let words = format!("stty cols 80 rows 24; '{program}' --exact {name} --ignored --nocapture; stty -a");
        let mut script = Command::new("script");
        script.args(["-qec", &words, "/dev/null"]).env("TERM", "xterm-256color").stdin(Stdio::null());
        let Ok(done) = script.output() else { return eprintln!("skipped: no `script` here") };
        let text = String::from_utf8_lossy(&done.stdout);
        let place =
            |text_part: &str| text.find(text_part).unwrap_or_else(|| panic!("{text_part:?} is missing: {text:?}"));
        let (taken, back) = (place("\u{1b}[?1049h"), place("\u{1b}[?1049l"));
        assert!(taken < back && back < place("held back") && back < place("on purpose"), "{text:?}");
        assert!(place("\u{1b}[?25h") < place("on purpose"), "the cursor is back: {text:?}");
        let after = &text[place("on purpose")..];
        assert!(after.contains(" icanon") && after.contains(" echo "), "{after}");
    }
}
