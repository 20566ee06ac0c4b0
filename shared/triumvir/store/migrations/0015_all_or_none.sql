-- Why: a few orders are decided on without being locked first, and a few new ones created without a look at what is
-- there. That one write is a transaction of its own, and must leave nothing behind, not even the rows of their
-- neighbours, if one of them moved since it was read, or is there already.

create function all_or_none(wanted bigint, done bigint) returns bigint language plpgsql immutable as $$
begin
    if done <> wanted then
        raise exception '% of % orders are not as they were taken to be', wanted - done, wanted
            using errcode = 'serialization_failure', hint = 'look again';
    end if;
    return done;
end $$;
