-- name: begin_requests
-- Takes the inbox rows of these requests before the first call, or leaves them. An undo first closes the forward
-- row to every fence, unless a forward call is, or may be, under way before its deadline. A row taken over from
-- an instance that died under the same fence is in doubt: its call may still land. Of a request whose calls are used up
-- none is counted. Returns what was taken.
with request as (
    select * from unnest(
        :nos::bigint[], :step_nos::smallint[], :directions::text[], :fences::bigint[], :generations::int[],
        :complete_by::timestamptz[], :allowed::int[], :idle::boolean[], :early::text[]
    ) as r(no, step_no, direction, fence, generation, complete_by, allowed, idle, early)
), closed as (
    insert into inbox as i (no, step_no, direction, fence, state, refuse_upto)
    select r.no, r.step_no, 'do', 0, 'fenced', 9223372036854775807
    from request r where r.direction = 'undo' and r.complete_by > clock_timestamp()
    order by r.no, r.step_no
    on conflict (no, step_no, direction) do update set refuse_upto = excluded.refuse_upto
    where not ((i.state = 'running' or i.doubt) and i.complete_by > clock_timestamp())
    returning i.no, i.step_no
)
insert into inbox as i (no, step_no, direction, fence, generation, owner, complete_by, state, calls,
                        tries, early, early_fence)
select r.no, r.step_no, r.direction, r.fence, r.generation, :owner::uuid, r.complete_by, 'running', 1, 1,
       r.early, case when r.early is not null then r.fence end
from request r
where r.complete_by > clock_timestamp()
  and (r.direction = 'do' or exists (select from closed c where c.no = r.no and c.step_no = r.step_no))
order by r.no, r.step_no, r.direction
on conflict (no, step_no, direction) do update set
    fence = excluded.fence, generation = excluded.generation, owner = excluded.owner,
    complete_by = excluded.complete_by, state = 'running', reply = null,
    early = excluded.early, early_fence = excluded.early_fence, reply_due = null, replied_at = null,
    calls = i.calls + case when i.fence = excluded.fence and i.tries >= (
        select r.allowed from request r
        where r.no = i.no and r.step_no = i.step_no and r.direction = i.direction) then 0 else 1 end,
    tries = case when i.fence = excluded.fence then i.tries + 1 else 1 end,
    doubt = i.fence = excluded.fence and (i.doubt or i.state = 'running')
where excluded.fence > i.refuse_upto
  and (i.state = 'fenced'
       or (i.state = 'failed' and i.fence < excluded.fence)
       or (i.state = 'succeeded' and i.generation < excluded.generation)
       or (i.state = 'running' and i.fence < excluded.fence)
       or (i.state = 'running' and i.fence = excluded.fence and i.owner <> excluded.owner
           and not exists (select from instances p
                           where p.id = i.owner and p.lease_until > clock_timestamp()))
       or (i.state = 'running' and i.fence = excluded.fence and i.owner = excluded.owner
           and (select r.idle from request r where r.no = i.no and r.step_no = i.step_no
                   and r.direction = i.direction)))
returning no, step_no, direction, fence, calls, tries, doubt,
          extract(epoch from complete_by - clock_timestamp())::float8 as seconds_left;

-- name: read_inbox
-- What is known of requests that were not taken, to answer them.
select r.no, r.step_no, r.direction, r.complete_by <= clock_timestamp() as out_of_time,
       i.fence, i.generation, i.state, i.calls, i.reply, i.refuse_upto
from unnest(:nos::bigint[], :step_nos::smallint[], :directions::text[], :complete_by::timestamptz[])
     as r(no, step_no, direction, complete_by)
left join inbox i on i.no = r.no and i.step_no = r.step_no and i.direction = r.direction;

-- name: refuse_unknown
-- No operation of that name here: this attempt is closed, unless somebody has begun it. No row: somebody has.
insert into inbox as i (no, step_no, direction, fence, state, refuse_upto)
values (:no::bigint, :step_no::smallint, :direction::text, 0, 'fenced', :fence::bigint)
on conflict (no, step_no, direction) do update set refuse_upto = greatest(i.refuse_upto, excluded.refuse_upto)
where i.fence < excluded.refuse_upto
returning no;

-- name: ask_inbox
-- What is known of a request. Its row is closed to this attempt and all before it, so that what is told stays true.
insert into inbox as i (no, step_no, direction, fence, state, refuse_upto)
values (:no::bigint, :step_no::smallint, :direction::text, 0, 'fenced', :fence::bigint)
on conflict (no, step_no, direction) do update set refuse_upto = greatest(i.refuse_upto, excluded.refuse_upto)
returning fence, generation, state, calls, reply;

-- name: was_cut_off
-- Whether earlier attempts called for this step more than once and the last one never wrote what came of it.
select exists (
    select from inbox
    where no = :no::bigint and step_no = :step_no::smallint and direction = :direction::text
      and fence < :fence::bigint and state = 'running' and calls > 1
);

-- name: count_call
-- One more call under this fence is about to be made. No row: the request was fenced or out of time, or its calls are
-- used up: by another instance, too, which took it over.
update inbox set calls = calls + 1, tries = tries + 1
where no = :no::bigint and step_no = :step_no::smallint and direction = :direction::text
  and fence = :fence::bigint and state = 'running' and refuse_upto < :fence::bigint
  and complete_by > clock_timestamp() and tries < :allowed::int
returning calls;

-- name: finish_requests
-- running -> succeeded | failed, failed -> succeeded, guarded by the fence. A row that is not returned belongs to
-- another attempt. A failure is the owner's to tell: somebody else may be calling by now; if they were and failed,
-- a success stands all the same, and the next attempt finds it. The same outcome again lands too: the answer to the
-- first commit may have been lost. Of a request that was acknowledged early the reply is due by itself from then on.
update inbox i set state = u.state, reply = u.reply, owner = null,
    reply_due = case when i.early_fence = i.fence and i.replied_at is null
                     then clock_timestamp() + make_interval(secs => :lease_seconds::float8) end
from unnest(:nos::bigint[], :step_nos::smallint[], :directions::text[], :fences::bigint[], :states::text[],
            :replies::text[]) as u(no, step_no, direction, fence, state, reply)
where i.no = u.no and i.step_no = u.step_no and i.direction = u.direction
  and i.fence = u.fence
  and ((i.state in ('running', 'failed') and u.state = 'succeeded')
       or (i.state = 'running' and i.owner = :owner::uuid)
       or (i.state = u.state and i.reply = u.reply))
returning i.no, i.step_no, i.direction, i.fence;

-- name: finish_in_transaction
-- running -> succeeded, in the operation's own transaction: refused as soon as anyone fenced the attempt.
update inbox set state = 'succeeded', reply = :reply::text, owner = null,
    reply_due = case when early_fence = fence
                     then clock_timestamp() + make_interval(secs => :lease_seconds::float8) end
where no = :no::bigint and step_no = :step_no::smallint and direction = :direction::text
  and fence = :fence::bigint and state = 'running' and refuse_upto < :fence::bigint
returning no;

-- name: mark_replied!
-- The broker has the reply to a request that was acknowledged early.
update inbox set replied_at = clock_timestamp(), reply_due = null
where no = :no::bigint and step_no = :step_no::smallint and direction = :direction::text and fence = :fence::bigint
  and reply_due is not null;

-- name: take_due_replies
-- Replies of early acknowledged requests that whoever called did not get out, the oldest first, taken for the time of a
-- lease: nobody else publishes them meanwhile.
with due as (
    select no, step_no, direction from inbox
    where reply_due is not null and reply_due < clock_timestamp()
    order by reply_due limit :most::int
    for no key update skip locked
)
update inbox i set reply_due = clock_timestamp() + make_interval(secs => :lease_seconds::float8)
from due
where i.no = due.no and i.step_no = due.step_no and i.direction = due.direction
returning i.no, i.step_no, i.direction, i.fence, i.state, i.calls, i.reply, i.early, i.early_fence,
          (select o.trace from orders o where o.no = i.no) as trace;

-- name: forget_session
-- Several statements, run as one script: a session that an operation used is as it was opened. `discard all` by hand,
-- except that of the prepared statements only those of the operation go.
close all;
set session authorization default;
reset role;
reset all;
unlisten *;
select pg_advisory_unlock_all();
discard temp;
discard sequences;
do $$
declare
    prepared name;
begin
    for prepared in select p.name from pg_prepared_statements p where p.from_sql loop
        execute format('deallocate %I', prepared);
    end loop;
end
$$;

-- name: lock_inbox
-- The row once nobody else is changing it.
select state, fence from inbox
where no = :no::bigint and step_no = :step_no::smallint and direction = :direction::text
for no key update;

-- name: close_expired
-- The supervisor's only write here: no agent may begin these requests any more. Shows what was begun before. A step that
-- waits for a signal has no request.
insert into inbox as i (no, step_no, direction, fence, state, refuse_upto)
select u.no, u.step_no, u.direction, 0, 'fenced', u.fence
from unnest(:nos::bigint[], :step_nos::smallint[], :directions::text[], :fences::bigint[])
     as u(no, step_no, direction, fence)
where not exists (select from steps s where s.no = u.no and s.step_no = u.step_no and s.state = 'waiting')
order by u.no, u.step_no, u.direction
on conflict (no, step_no, direction) do update set
    refuse_upto = greatest(i.refuse_upto, excluded.refuse_upto)
returning no, step_no, direction, fence, state, calls;
