//! Memory for the moment in which there is no more: the first allocation that the system refuses is answered from a
//! reserve, and a command can say that memory is short. If the reserve is used up too, the command ends with a message
//! and exit code 1, where Rust would abort it. What a recorder has written stays, as if it had been killed.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// Size of the reserve: enough to write what a recorder holds.
const RESERVE_BYTES: usize = 2 << 20;

#[global_allocator]
static ALLOCATOR: ReservingAllocator = ReservingAllocator;

/// The reserve; null before it is taken and after it was given up.
static RESERVE: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());
/// Whether a refused allocation ends the process. Otherwise the caller handles it.
static ENDS_PROCESS: AtomicBool = AtomicBool::new(false);
/// The reserve was needed.
static IS_SHORT: AtomicBool = AtomicBool::new(false);

/// Takes the reserve. From then on, memory that nobody has ends the process with a message.
pub fn take_reserve() {
    ENDS_PROCESS.store(true, Ordering::Relaxed);
    let mut reserve: Vec<u8> = Vec::new();
    if reserve.try_reserve_exact(RESERVE_BYTES).is_ok() {
        RESERVE.store(reserve.leak().as_mut_ptr(), Ordering::Release);
    }
}

/// True once, after the reserve was needed.
pub fn take_shortage() -> bool {
    IS_SHORT.swap(false, Ordering::Relaxed)
}

/// The system's allocator, with a reserve.
struct ReservingAllocator;

impl ReservingAllocator {
    /// Gives the reserve up and tries again; ends the process if that does not help.
    fn retry_with_reserve(&self, bytes: usize, again: impl Fn() -> *mut u8) -> *mut u8 {
        if !ENDS_PROCESS.load(Ordering::Relaxed) {
            return ptr::null_mut();
        }
        release_reserve();
        let memory = again();
        if memory.is_null() {
            end_process(bytes);
        }
        memory
    }
}

#[allow(unsafe_code, reason = "an allocator is unsafe by its trait")]
fn release_reserve() {
    let reserve = RESERVE.swap(ptr::null_mut(), Ordering::Acquire);
    if !reserve.is_null() {
        IS_SHORT.store(true, Ordering::Relaxed);
        // SAFETY: it was allocated by this allocator with this size and alignment, and the swap gives it to one thread.
        unsafe { System.dealloc(reserve, Layout::array::<u8>(RESERVE_BYTES).unwrap_or(Layout::new::<u8>())) };
    }
}

/// Ends the process with a message that needs no memory.
#[allow(unsafe_code, reason = "nothing that allocates may be called")]
fn end_process(bytes: usize) -> ! {
    let mut digits = [b'0'; 20];
    let (mut rest, mut first) = (bytes, digits.len());
    while rest > 0 {
        first -= 1;
        digits[first] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    let [before, after] = [
        "diskwright: there is no memory for another ",
        " bytes; give it more (ulimit -v, MemoryMax, a larger machine)\n",
    ];
    for part in [before.as_bytes(), &digits[first..], after.as_bytes()] {
        // SAFETY: the part is memory of its length; standard error may be closed, which does not matter.
        unsafe { libc::write(2, part.as_ptr().cast(), part.len()) };
    }
    // SAFETY: it ends the process without running anything of it.
    unsafe { libc::_exit(1) }
}

// SAFETY: every call goes to the system's allocator with unchanged arguments, and null is returned only if it was.
#[allow(unsafe_code, reason = "an allocator is unsafe by its trait")]
unsafe impl GlobalAlloc for ReservingAllocator {
    // SAFETY: the caller keeps the contract.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        let allocate = || unsafe { System.alloc(layout) };
        let memory = allocate();
        if memory.is_null() { self.retry_with_reserve(layout.size(), allocate) } else { memory }
    }

    // SAFETY: the caller keeps the contract.
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        let allocate = || unsafe { System.alloc_zeroed(layout) };
        let memory = allocate();
        if memory.is_null() { self.retry_with_reserve(layout.size(), allocate) } else { memory }
    }

    // SAFETY: the caller keeps the contract.
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }

    // SAFETY: the caller keeps the contract; a refused call leaves the memory as it was.
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: as above.
        let allocate = || unsafe { System.realloc(memory, layout, new_size) };
        let grown = allocate();
        if grown.is_null() { self.retry_with_reserve(new_size, allocate) } else { grown }
    }
}
