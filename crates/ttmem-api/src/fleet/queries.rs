//! What Prometheus is asked, in PromQL.
//!
//! The expressions of `deploy/prometheus`, in terms of what servers expose: a Prometheus without these rules answers
//! as well. Only a week of a large fleet wants them.

/// Rows that are asked for of a list that has no bound of its own.
pub(super) const ROWS: usize = 500;

pub(super) const UP: &str = "max by (instance) (ttmem_up)";

/// Targets that do not answer; which are ours is known by the name of their scrape job.
pub(super) const ABSENT: &str = r#"max by (instance) (up{job=~".*ttmem.*"}) == 0"#;

pub(super) const DEVICES: &str =
    "count by (instance) (count by (instance, device) (ttmem_device_charged_bytes))";

pub(super) const CHARGED: &str = r#"sum by (instance) (ttmem_device_charged_bytes{class="dram"})"#;

pub(super) const CAPACITY: &str =
    r#"sum by (instance) (ttmem_device_capacity_bytes{class="dram"})"#;

pub(super) const USED: &str = "max by (instance, class) \
     (1 - ttmem_device_free_bytes / (ttmem_device_capacity_bytes > 0))";

pub(super) const FULL: &str = "topk(500, \
     1 - ttmem_device_free_bytes / (ttmem_device_capacity_bytes > 0) >= 0.95)";

pub(super) const FULLEST: &str = r#"topk(50, 1 - ttmem_device_free_bytes{class=~"dram|l1"} / (ttmem_device_capacity_bytes > 0) > 0)"#;

pub(super) const FRAGMENTED: &str = r#"max by (instance) (1 - ttmem_device_largest_fit_bytes{class="dram"} / (ttmem_device_free_bytes > ttmem_device_capacity_bytes / 50))"#;

pub(super) const IN_PIECES: &str = r#"topk(500, 1 - ttmem_device_largest_fit_bytes{class=~"dram|l1"} / (ttmem_device_free_bytes > ttmem_device_capacity_bytes / 50) > 0.75)"#;

/// By the server's own count: it begins at 0 with the server, so that `increase` sees the first one.
pub(super) const FAILING: &str =
    "topk(500, sum by (instance) (increase(ttmem_failures_total[10m])) > 0)";

pub(super) const FAILED_WEEK: &str = "sum by (instance) (increase(ttmem_failures_total[1w]))";

pub(super) const GROWING: &str = "topk(500, ttmem_process_growth_per_mark_bytes > 0)";

pub(super) const GROWING_COUNT: &str =
    "count by (instance) (ttmem_process_growth_per_mark_bytes > 0)";

pub(super) const INCOMPLETE: &str = "max by (instance) (ttmem_incomplete_processes) > 0";

pub(super) const GROWN_HOUR: &str = r#"sum by (instance) (ttmem_device_charged_bytes{class="dram"}) - sum by (instance) (ttmem_device_charged_bytes{class="dram"} offset 1h)"#;

pub(super) const GROWN_WEEK: &str = r#"sum by (instance) (ttmem_device_charged_bytes{class="dram"}) - sum by (instance) (ttmem_device_charged_bytes{class="dram"} offset 1w)"#;

pub(super) const RECORDED_USED_WEEK: &str =
    "max by (instance, class) (max_over_time(instance_class:ttmem_used:max_ratio[1w]))";

/// Where nothing was recorded: exact while the capacity does not change.
pub(super) const USED_WEEK: &str = "max by (instance, class) (1 - \
     min_over_time(ttmem_device_free_bytes[1w]) / (max_over_time(ttmem_device_capacity_bytes[1w]) > 0))";

pub(super) const RECORDED_FRAGMENTED_WEEK: &str = r#"max by (instance) (max_over_time(instance_class:ttmem_fragmented:max_ratio{class="dram"}[1w]))"#;

pub(super) const JOBS: &str = r#"topk(500, sum by (exported_job, user, class) (ttmem_process_charged_bytes{exported_job!="",class=~"dram|l1"}))"#;

pub(super) const JOB_HOSTS: &str = r#"count by (exported_job, user) (count by (exported_job, user, instance) (ttmem_process_charged_bytes{exported_job!=""}))"#;

pub(super) const JOB_GROWTH: &str =
    r#"sum by (exported_job, user) (ttmem_process_growth_per_mark_bytes{exported_job!=""})"#;

pub(super) const RECORDED_JOB_WEEK: &str =
    r#"max_over_time(workload_class:ttmem_charged_bytes:sum{class="dram"}[1w])"#;
