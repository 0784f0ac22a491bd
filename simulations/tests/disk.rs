//! The disk model: what survives a killed process, a power loss, a lying, failing or full disk.

#![cfg(test)]

use std::io::ErrorKind;
use std::path::Path;

use bytes::Bytes;
use seam::{Open, write_atomic};
use simulations::engine::{DiskFaults, Machine, Options, PowerLoss, World, run};

const DIR: &str = "/data";

#[test]
fn a_kill_keeps_what_was_written_and_a_power_loss_only_what_was_synced() {
    with_disk(1, |machine| async move {
        let host = machine.start();
        let disk = host.disk();
        write_atomic(&**disk, &path("kept"), Bytes::from_static(b"old")).await.unwrap();
        let file = disk.open(&path("kept"), Open::Write).await.unwrap();
        file.write_at(0, Bytes::from_static(b"new")).await.unwrap();
        drop(disk.open(&path("unnamed"), Open::Create).await.unwrap());

        machine.crash();
        let disk = machine.disk();
        assert_eq!(disk.read(&path("kept")).await.unwrap(), "new");
        assert_eq!(disk.list(Path::new(DIR)).await.unwrap(), ["kept", "unnamed"]);

        machine.power_off(PowerLoss::Unsynced);
        let disk = machine.disk();
        assert_eq!(disk.read(&path("kept")).await.unwrap(), "old");
        assert_eq!(disk.list(Path::new(DIR)).await.unwrap(), ["kept"]);
    });
}

#[test]
fn an_atomic_write_leaves_the_old_or_the_new_whatever_the_power_loss_tears() {
    for seed in 0..40 {
        with_disk(seed, move |machine| async move {
            let old = Bytes::from(vec![1; 10_000]);
            let new = Bytes::from(vec![2; 20_000]);
            let host = machine.start();
            write_atomic(&**host.disk(), &path("state"), old.clone()).await.unwrap();
            let writing = host.clone();
            let bytes = new.clone();
            let write = host
                .spawn("write", async move { write_atomic(&**writing.disk(), &path("state"), bytes).await });
            host.sleep(std::time::Duration::from_millis(seed % 4)).await;
            let acknowledged = write.is_finished();
            machine.power_off(PowerLoss::Torn);
            let found = machine.disk().read(&path("state")).await.unwrap();
            assert!(found == new || (!acknowledged && found == old), "seed {seed}");
        });
    }
}

#[test]
fn a_lying_disk_loses_and_a_failing_one_says_so() {
    with_disk(1, |machine| async move {
        machine.disk_faults(|faults| faults.lies = true);
        let disk = machine.disk();
        write_atomic(&*disk, &path("state"), Bytes::from_static(b"gone")).await.unwrap();
        machine.power_off(PowerLoss::Unsynced);
        assert_eq!(machine.disk().read(&path("state")).await.unwrap_err().kind(), ErrorKind::NotFound);

        machine.disk_faults(|faults| *faults = DiskFaults { fails_syncs: true, ..DiskFaults::default() });
        let file = machine.disk().open(&path("state"), Open::Create).await.unwrap();
        file.write_at(0, Bytes::from_static(b"lost")).await.unwrap();
        assert_eq!(file.sync_data().await.unwrap_err().raw_os_error(), Some(5));
        machine.disk_faults(|faults| faults.fails_syncs = false);
        file.sync_data().await.unwrap();
        machine.disk().sync_dir(Path::new(DIR)).await.unwrap();
        machine.power_off(PowerLoss::Unsynced);
        assert_eq!(
            machine.disk().read(&path("state")).await.unwrap(),
            "\0\0\0\0",
            "a failed sync is never made good"
        );
    });
}

#[test]
fn a_full_disk_refuses_before_it_writes_and_takes_more_once_there_is_room() {
    with_disk(1, |machine| async move {
        machine.disk_faults(|faults| faults.capacity = Some(8192));
        let disk = machine.disk();
        let first = disk.open(&path("first"), Open::Create).await.unwrap();
        first.write_at(0, Bytes::from(vec![1; 8192])).await.unwrap();
        let second = disk.open(&path("second"), Open::Create).await.unwrap();
        let full = second.write_at(0, Bytes::from_static(b"x")).await.unwrap_err();
        assert_eq!(full.kind(), ErrorKind::StorageFull);
        assert_eq!(second.size().await.unwrap(), 0);
        drop(first);
        disk.remove(&path("first")).await.unwrap();
        second.write_at(0, Bytes::from_static(b"x")).await.unwrap();
        assert_eq!(machine.disk_used(), 4096);
        assert_eq!(second.allocate(8193).await.unwrap_err().kind(), ErrorKind::StorageFull);
        second.allocate(8192).await.unwrap();
        assert_eq!((machine.disk_used(), second.size().await.unwrap()), (8192, 8192));
    });
}

#[test]
fn a_lock_ends_with_its_process() {
    with_disk(1, |machine| async move {
        let host = machine.start();
        let held = host.disk().lock(&path("lock")).await.unwrap();
        assert_eq!(host.disk().lock(&path("lock")).await.unwrap_err().kind(), ErrorKind::WouldBlock);
        let next = machine.start();
        let taken = next.disk().lock(&path("lock")).await.unwrap();
        drop(held);
        assert_eq!(next.disk().lock(&path("lock")).await.unwrap_err().kind(), ErrorKind::WouldBlock);
        drop(taken);
        drop(next.disk().lock(&path("lock")).await.unwrap());
    });
}

fn with_disk<F: Future<Output = ()>>(seed: u64, work: impl FnOnce(Machine) -> F + Send + 'static) {
    run(&Options::seed(seed), |world: World| async move {
        let machine = world.machine("machine");
        machine.disk().create_dir_all(Path::new(DIR)).await.unwrap();
        work(machine).await;
    })
    .unwrap();
}

fn path(name: &str) -> std::path::PathBuf {
    Path::new(DIR).join(name)
}
